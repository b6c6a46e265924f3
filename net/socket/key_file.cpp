#include "key_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#ifdef _WIN32
#include <io.h>
#include <process.h>
#else
#include <unistd.h>
#endif

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "../crypto/entropy.h"
#include "system_random.h"

namespace shoal::net::impl {
namespace {

/// Returns the first line of a file. Returns nothing if the file cannot be read; errno says why.
std::optional<std::string> read_line(const std::string& path) {
    errno = 0;
    std::ifstream file(path);
    std::string line;
    if (!file || !std::getline(file, line)) return errno == 0 ? std::optional(std::string()) : std::nullopt;
    return line;
}

std::string cannot(std::string_view what, const std::string& path) {
    return "cannot " + std::string(what) + " " + path + ": " + std::strerror(errno);
}

/// Parses the result of read_line(path).
template <class T>
KeyOrWhy<T> parsed(const std::string& path, const std::optional<std::string>& line,
                   std::optional<T> parse(std::string_view), std::string_view expected) {
    if (!line) return {{}, cannot("read", path)};
    std::optional<T> key = parse(*line);
    return {key, key ? std::string() : path + " holds no " + std::string(expected)};
}
constexpr std::string_view kKeyLine = "key: one line of 64 hexadecimal digits";

#ifdef _WIN32
int open_private(const char* path) {
    return _open(path, _O_WRONLY | _O_CREAT | _O_EXCL | _O_BINARY, _S_IREAD | _S_IWRITE);
}
bool write_and_close(int file, const std::string& line) {
    const bool is_written = _write(file, line.data(), unsigned(line.size())) == int(line.size());
    return _close(file) == 0 && is_written;
}
int process_id() {
    return _getpid();
}
#else
int open_private(const char* path) {
    return ::open(path, O_WRONLY | O_CREAT | O_EXCL, S_IRUSR | S_IWUSR);
}
bool write_and_close(int file, const std::string& line) {
    const bool is_written = ::write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
    return ::close(file) == 0 && is_written;
}
int process_id() {
    return getpid();
}
#endif

std::string draft_of(const std::string& path) {
    return path + "." + std::to_string(process_id());
}

/// Makes a file that only its owner can read. If the file exists, replaces it, or fails if `may_replace` is
/// false. The file gets its name after it is written, so no program reads a part of it. Returns false if it
/// fails; errno says why.
bool make_private(const std::string& path, const std::string& bytes, bool may_replace) {
    const std::string draft = draft_of(path);
    std::error_code error, ignored;
    std::filesystem::remove(draft, ignored);  // of a program that ended in the middle of this
    const int file = open_private(draft.c_str());
    if (file < 0) return false;
    if (!write_and_close(file, bytes)) {
        error = std::make_error_code(std::errc::io_error);
    } else if (may_replace) {
        std::filesystem::rename(draft, path, error);
    } else {
        std::filesystem::create_hard_link(draft, path, error);
    }
    std::filesystem::remove(draft, ignored);
    errno = error.value();
    return !error;
}

}  // namespace

KeyOrWhy<SecretKey> load_or_make_private_key(const std::string& path) {
    std::optional<std::string> line = read_line(path);
    if (!line && errno == ENOENT) {
        Seed random{};
        if (!fill_random(random)) return {{}, "the system has no random bytes"};
        const SecretKey made(random);
        if (!make_private(path, to_secret_text(made) + "\n", false) && !std::filesystem::exists(path))
            return {{}, cannot("write", path)};
        line = read_line(path);  // of this program, or of another one that was faster
    }
    return parsed(path, line, parse_private_key, kKeyLine);
}

bool write_public_key(const std::string& path, const PublicKey& key) {
    const std::string draft = draft_of(path);
    std::ofstream file(draft, std::ios::binary);  // clients on other systems read it too
    file << to_text(key) << "\n";
    file.close();
    std::error_code error;
    if (file.good()) std::filesystem::rename(draft, path, error);
    return file.good() && !error;
}

bool write_private(const std::string& path, const std::string& bytes) {
    return make_private(path, bytes, true);
}

KeyOrWhy<PublicKey> read_public_key(const std::string& path) {
    return parsed(path, read_line(path), parse_public_key, kKeyLine);
}

KeyOrWhy<ClientToken> read_token(const std::string& path) {
    std::optional<std::string> line;
    if (path == "-") {
        std::getline(std::cin, line.emplace());
    } else {
        line = read_line(path);
    }
    return parsed(path, line, parse_client_token, "token: one line from the backend");
}

}  // namespace shoal::net::impl
