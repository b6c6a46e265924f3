#include "model.h"
#include <cstdio>
#include <cstdlib>
namespace shoal::replication::all {
std::uint64_t gcount[kModelSlots][2];
struct Dump { ~Dump() { if (const char* p = std::getenv("SHOAL_COUNT")) { FILE* f = std::fopen(p, "w"); for (auto& c : gcount) std::fprintf(f, "%llu %llu\n", (unsigned long long)c[0], (unsigned long long)c[1]); std::fclose(f); } } } dump;
const Model kBuiltInModel = [] { Model m; m.fill(128); if (const char* p = std::getenv("SHOAL_MODEL")) { FILE* f = std::fopen(p, "r"); for (auto& x : m) { int v; if (std::fscanf(f, "%d", &v) == 1) x = static_cast<std::uint8_t>(v); } std::fclose(f); } return m; }();
}
