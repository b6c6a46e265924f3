#include "model.h"

#include "built_in_model.h"

namespace shoal::replication::impl {
namespace {

static_assert(sizeof kTable == kModelSlots + 1);

constexpr CodecModel unpacked() {
    CodecModel model{};
    for (unsigned i = 0; i < kModelSlots; ++i)
        model[i] = kProbabilities[kTable[i] - '#' - (kTable[i] > '?') - (kTable[i] > '\\')];
    return model;
}

}  // namespace

constinit const CodecModel kBuiltInModel = unpacked();

}  // namespace shoal::replication::impl
