#include "demo/message.h"

#include <gtest/gtest.h>

#include <memory>

namespace shoal::demo {
namespace {

/// Calls `read` with every prefix of `message`, in a buffer of exactly that size.
template <class Read>
void refuse_prefixes(const std::vector<std::byte>& message, Read read) {
    for (std::size_t size = 0; size < message.size(); ++size) {
        const auto exact = std::make_unique<std::byte[]>(size);
        std::copy_n(message.begin(), size, exact.get());
        EXPECT_FALSE(read(std::span<const std::byte>(exact.get(), size))) << size;
    }
}

TEST(Message, IsReadAsItWasWritten) {
    EXPECT_EQ(read_name(write_name("Nemo")), "Nemo");
}

TEST(Message, BytesAreFixed) {
    EXPECT_EQ(write_name("N"), (std::vector<std::byte>{std::byte{'n'}, std::byte{'N'}}));
}

TEST(Message, WrongLengthsAreRefused) {
    refuse_prefixes(write_name("N"), read_name);
    const std::vector<std::byte> longer(18, std::byte{'n'});
    EXPECT_FALSE(read_name(longer));
}

TEST(Message, WrongKindsAreRefused) {
    EXPECT_FALSE(read_name(std::vector<std::byte>{std::byte{'s'}, std::byte{'N'}}));
}

TEST(Message, NamesAreCutAndMadePrintable) {
    EXPECT_EQ(read_name(write_name(std::string(40, 'x'))), std::string(16, 'x'));
    std::string hostile = "\x1b[2J\r\n\x7f\x9b\xff ok";
    hostile[3] = '\0';
    EXPECT_EQ(read_name(write_name(hostile)), "?[2?????? ok");
}

}  // namespace
}  // namespace shoal::demo
