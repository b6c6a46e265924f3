#include "terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <optional>

namespace shoal::demo {
namespace {

std::optional<Key> key_of(char letter) {
    switch (letter) {
        case 'w':
        case 'W':
            return Key::up;
        case 's':
        case 'S':
            return Key::down;
        case 'a':
        case 'A':
            return Key::left;
        case 'd':
        case 'D':
            return Key::right;
        case ' ':
            return Key::stop;
        case 'q':
        case 'Q':
            return Key::quit;
        default:
            return std::nullopt;
    }
}

std::optional<Key> arrow_of(char letter) {
    constexpr std::array kArrows = {Key::up, Key::down, Key::right, Key::left};
    if (letter < 'A' || letter > 'D') return std::nullopt;
    return kArrows[static_cast<std::size_t>(letter - 'A')];
}

}  // namespace

std::vector<Key> take_keys(std::string& input) {
    std::vector<Key> keys;
    std::size_t at = 0;
    while (at < input.size()) {
        std::optional<Key> key;
        if (input[at] != '\x1b') {
            key = key_of(input[at++]);
        } else {  // arrows are ESC [ A or ESC O A; other sequences end with a letter or ~
            const bool is_sequence = at + 1 < input.size() && (input[at + 1] == '[' || input[at + 1] == 'O');
            std::size_t end = at + (is_sequence ? 2 : 1);
            while (is_sequence && end < input.size() && (input[end] < '@' || input[end] > '~')) ++end;
            if (end >= input.size() && end - at < 16) break;
            if (is_sequence && end == at + 2 && end < input.size()) key = arrow_of(input[end]);
            at = is_sequence ? end + 1 : end;
        }
        if (key) keys.push_back(*key);
    }
    input.erase(0, at);
    return keys;
}

bool Terminal::is_present() {
    const char* const kind = std::getenv("TERM");
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && kind != nullptr &&
           std::string_view(kind) != "dumb";
}

Terminal::Terminal() {
    tcgetattr(STDIN_FILENO, &before_);
    termios raw = before_;
    raw.c_lflag &= static_cast<tcflag_t>(~(ICANON | ECHO));  // Ctrl-C still sends a signal
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    raw.c_cc[VSUSP] = raw.c_cc[VQUIT] = _POSIX_VDISABLE;  // they would leave the terminal in this mode
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw);
    write("\x1b[?1049h\x1b[?25l\x1b[?7l");  // other screen, no cursor, no line wrap
}

Terminal::~Terminal() {
    write("\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l");
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
}

Terminal::Size Terminal::size() const {
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
    return {size.ws_col, size.ws_row};
}

std::vector<Key> Terminal::keys() {
    std::array<char, 256> bytes;
    const ssize_t count = read(STDIN_FILENO, bytes.data(), bytes.size());
    if (count > 0) input_.append(bytes.data(), static_cast<std::size_t>(count));
    return take_keys(input_);
}

void Terminal::write(std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t count = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
        if (count < 0 && errno != EINTR && errno != EAGAIN) return;  // the terminal is closed
        if (count > 0) bytes.remove_prefix(static_cast<std::size_t>(count));
    }
}

}  // namespace shoal::demo
