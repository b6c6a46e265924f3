#include "demo/flags.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace shoal::demo {
namespace {

struct Example {
    bool headless = false;
    std::string name = "nobody";
    std::uint64_t port = 7;
    double loss = 0.5;
    Flags flags{"usage"};

    Example() {
        flags.toggle("--headless", headless, "quiet");
        flags.text("--name", name, "who");
        flags.whole("--port", port, 0, 65'535, "where");
        flags.real("--loss", loss, 0, 1, "how bad");
    }
    Flags::Outcome parse(std::initializer_list<const char*> arguments) {
        return flags.parse({arguments.begin(), arguments.size()});
    }
};

TEST(Flags, KeepDefaults) {
    Example example;
    EXPECT_EQ(example.parse({}), Flags::Outcome::run);
    EXPECT_EQ(example.port, 7u);
    EXPECT_EQ(example.name, "nobody");
}

TEST(Flags, TakeValuesInBothForms) {
    Example example;
    EXPECT_EQ(example.parse({"--port", "65535", "--loss=0.25", "--headless", "--name=a=b"}),
              Flags::Outcome::run);
    EXPECT_EQ(example.port, 65'535u);
    EXPECT_EQ(example.loss, 0.25);
    EXPECT_TRUE(example.headless);
    EXPECT_EQ(example.name, "a=b");
}

TEST(Flags, HelpNamesEachFlag) {
    Example example;
    EXPECT_EQ(example.parse({"--help"}), Flags::Outcome::help);
    for (const char* name : {"usage", "--headless", "--name", "--port", "--loss", "--help"})
        EXPECT_NE(example.flags.help().find(name), std::string::npos) << name;
}

TEST(Flags, RefuseInvalidValues) {
    for (const char* value : {"", " 1", "1 ", "1x", "-1", "65536", "0x10", "99999999999999999999", "1.5"}) {
        Example example;
        EXPECT_EQ(example.parse({"--port", value}), Flags::Outcome::bad) << value;
        EXPECT_EQ(example.port, 7u);
        EXPECT_NE(example.flags.error().find("--port"), std::string::npos);
        EXPECT_NE(example.flags.error().find("from 0 to 65535"), std::string::npos);
    }
    for (const char* value : {"", "-0.1", "1.01", "nan", "inf", "-inf", "0,5", "half"}) {
        Example example;
        EXPECT_EQ(example.parse({"--loss", value}), Flags::Outcome::bad) << value;
        EXPECT_EQ(example.loss, 0.5);
    }
}

TEST(Flags, ReportUnknownAndIncompleteFlagsInOneLine) {
    for (const auto& arguments : {std::initializer_list<const char*>{"--nmae", "x"},
                                  {"stray"},
                                  {"--name"},
                                  {"--port="},
                                  {"--headless=yes"},
                                  {""}}) {
        Example example;
        EXPECT_EQ(example.parse(arguments), Flags::Outcome::bad);
        EXPECT_FALSE(example.flags.error().empty());
        EXPECT_EQ(example.flags.error().find('\n'), std::string::npos);
    }
}

}  // namespace
}  // namespace shoal::demo
