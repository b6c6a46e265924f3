// Every input in tests/fuzz/corpus goes through its fuzzer, which aborts where a claim does not hold.

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

using Fuzzer = int(const std::uint8_t* data, std::size_t size);
// LLVMFuzzerTestOneInput of the file of this name; see the Makefile.
extern "C" Fuzzer fuzz_client_to_server, fuzz_ecs, fuzz_net_raw, fuzz_net_sealed, fuzz_receiver, fuzz_replay,
    fuzz_token, fuzz_uplink;

namespace {

std::string input_name;

void name_input(int) {
    std::fprintf(stderr, "input: %s\n", input_name.c_str());
}

void run(const char* name, Fuzzer* fuzzer) {
    std::vector<std::filesystem::path> inputs;
    for (const auto& entry : std::filesystem::directory_iterator(std::string("tests/fuzz/corpus/") + name))
        inputs.push_back(entry.path());
    std::sort(inputs.begin(), inputs.end());
    EXPECT_GE(inputs.size(), 40u);
    const auto previous = std::signal(SIGABRT, name_input);
    for (const std::filesystem::path& path : inputs) {
        std::ifstream file(path, std::ios::binary);
        const std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
        input_name = path.string();
        fuzzer(bytes.data(), bytes.size());
    }
    std::signal(SIGABRT, previous);
}

}  // namespace

TEST(FuzzCorpus, HoldsForClientToServer) {
    run("client_to_server", fuzz_client_to_server);
}
TEST(FuzzCorpus, HoldsForEcs) {
    run("ecs", fuzz_ecs);
}
TEST(FuzzCorpus, HoldsForNetRaw) {
    run("net_raw", fuzz_net_raw);
}
TEST(FuzzCorpus, HoldsForNetSealed) {
    run("net_sealed", fuzz_net_sealed);
}
TEST(FuzzCorpus, HoldsForReceiver) {
    run("receiver", fuzz_receiver);
}
TEST(FuzzCorpus, HoldsForReplay) {
    run("replay", fuzz_replay);
}
TEST(FuzzCorpus, HoldsForTokens) {
    run("token", fuzz_token);
}
TEST(FuzzCorpus, HoldsForUplink) {
    run("uplink", fuzz_uplink);
}
