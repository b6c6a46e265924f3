#include "demo/process.h"

#include <gtest/gtest.h>

namespace shoal::demo {
namespace {

TEST(Process, FindsFilesInTheFolderOfTheProgram) {
    EXPECT_EQ(beside("build/demo/server", "server.key"), "build/demo/server.key");
    EXPECT_EQ(beside("server", "server.key"), "server.key");
}

}  // namespace
}  // namespace shoal::demo
