#include "demo/text.h"

#include <gtest/gtest.h>

namespace shoal::demo {
namespace {

TEST(Text, PrintableTextControlsNoTerminal) {
    std::string hostile = "\x1b[2J\r\n\x7f\x9b\xff ok";
    hostile[3] = '\0';
    EXPECT_EQ(printable(hostile), "?[2?????? ok");
    EXPECT_FALSE(is_printable(hostile));
    EXPECT_TRUE(is_printable(printable(hostile)));
    EXPECT_TRUE(is_printable(""));
}

}  // namespace
}  // namespace shoal::demo
