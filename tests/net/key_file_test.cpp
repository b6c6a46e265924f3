#include "net/socket/key_file.h"

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

namespace shoal::net::impl {
namespace {

/// An empty folder. The destructor removes it.
struct Folder {
    Folder() {
        std::string name = (std::filesystem::temp_directory_path() / "shoal_key_XXXXXX").string();
        path = mkdtemp(name.data());
    }
    ~Folder() { std::filesystem::remove_all(path); }
    std::string file(std::string_view name) const { return (path / name).string(); }
    std::string write(std::string_view name, std::string_view text) const {
        std::ofstream(file(name)) << text;
        return file(name);
    }
    std::size_t files() const {
        return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path), {}));
    }
    std::filesystem::path path;
};

TEST(KeyFile, FirstStartMakesAKeyThatOnlyItsOwnerCanReadAndLaterStartsReuseIt) {
    const Folder folder;
    const auto made = load_or_make_private_key(folder.file("server.key"));
    ASSERT_TRUE(made.key) << made.why;
    struct stat status {};
    ASSERT_EQ(stat(folder.file("server.key").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777u, 0600u);
    EXPECT_EQ(folder.files(), 1u);
    const auto again = load_or_make_private_key(folder.file("server.key"));
    ASSERT_TRUE(again.key);
    EXPECT_EQ(public_key(*again.key), public_key(*made.key));
    const Folder other;
    EXPECT_NE(public_key(*load_or_make_private_key(other.file("server.key")).key), public_key(*made.key));
}

TEST(KeyFile, ADraftOfAProgramThatEndedDoesNotPreventANewKey) {
    const Folder folder;
    folder.write("server.key." + std::to_string(getpid()), "part of a key");
    const auto made = load_or_make_private_key(folder.file("server.key"));
    EXPECT_TRUE(made.key) << made.why;
    EXPECT_EQ(folder.files(), 1u);
}

TEST(KeyFile, PublicKeyIsReadAsItWasWritten) {
    const Folder folder;
    const PublicKey key = public_key(*load_or_make_private_key(folder.file("server.key")).key);
    ASSERT_TRUE(write_public_key(folder.file("server.pub"), key));
    EXPECT_EQ(read_public_key(folder.file("server.pub")).key, key);
    EXPECT_FALSE(write_public_key(folder.file("none/server.pub"), key));
}

TEST(KeyFile, ErrorsNameTheFileInOneLine) {
    const Folder folder;
    const auto expect_why = [](const std::string& why, const std::string& path) {
        EXPECT_NE(why.find(path), std::string::npos) << why;
        EXPECT_EQ(why.find('\n'), std::string::npos);
    };
    for (const std::string& text : {std::string(), std::string("hello\n"), std::string(63, 'a'),
                                    std::string(65, 'a'), std::string(64, 'g')}) {
        const std::string path = folder.write("bad", text);
        EXPECT_FALSE(load_or_make_private_key(path).key);
        EXPECT_FALSE(read_public_key(path).key);
        expect_why(load_or_make_private_key(path).why, path);
        expect_why(read_public_key(path).why, path);
        EXPECT_FALSE(read_token(path).key);
        expect_why(read_token(path).why, path);
        std::ifstream file(path);
        EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), text) << "the file must not change";
    }
    expect_why(read_public_key(folder.file("missing")).why, folder.file("missing"));
    expect_why(read_token(folder.file("missing")).why, folder.file("missing"));
    expect_why(load_or_make_private_key(folder.file("none/server.key")).why, folder.file("none/server.key"));
    expect_why(load_or_make_private_key(folder.path.string()).why, folder.path.string());
}

TEST(KeyFile, APrivateFileIsReplacedAndOnlyItsOwnerCanReadIt) {
    const Folder folder;
    const std::string path = folder.write("ticket", "a longer text that everyone can read");
    folder.write("ticket." + std::to_string(getpid()), "what a program left that ended in the middle");
    ASSERT_TRUE(write_private(path, "secret"));
    std::ifstream file(path);
    std::string text;
    std::getline(file, text);
    EXPECT_EQ(text, "secret");
    struct stat status {};
    ASSERT_EQ(stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777u, 0600u);
    EXPECT_EQ(folder.files(), 1u);
    EXPECT_FALSE(write_private(folder.file("none/ticket"), "secret"));
}

TEST(KeyFile, TokenIsReadAsTheBackendPrintedIt) {
    const Folder folder;
    const std::array servers = {Address::ipv4(127, 0, 0, 1, 40000)};
    const TokenRequest request{.protocol_id = 1,
                               .client_id = 7,
                               .expires_s = 60,
                               .servers = servers,
                               .claims = {},
                               .server_key = {std::byte(1)}};
    const auto issued = issue_token(request, *load_or_make_private_key(folder.file("backend.key")).key, {});
    ASSERT_TRUE(issued);
    const auto [token, why] = read_token(folder.write("token", to_text(*issued) + "\n"));
    ASSERT_TRUE(token) << why;
    EXPECT_EQ(token->sealed, issued->sealed);
    EXPECT_EQ(token->servers, issued->servers);
    EXPECT_EQ(token->server_key, issued->server_key);
}

}  // namespace
}  // namespace shoal::net::impl
