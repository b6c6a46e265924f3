#include "terminal.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <optional>

#ifdef _WIN32
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#else
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#endif

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
        case 'f':
        case 'F':
            return Key::shoot;
        case '1':
        case '2':
        case '3':
        case '4':
        case '5':
            return static_cast<Key>(static_cast<int>(Key::throw_1) + letter - '1');
        case 'q':
        case 'Q':
            return Key::quit;
        case '\n':
        case '\r':
            return Key::talk;
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
        if (key == Key::talk) break;
    }
    input.erase(0, at);
    return keys;
}

bool take_line(std::string& input, std::string& line, std::size_t max_bytes) {
    std::size_t at = 0;
    bool has_ended = false;
    while (at < input.size() && !has_ended) {
        const char c = input[at++];
        has_ended = c == '\n' || c == '\r' || c == '\x1b';
        if (c == '\x1b') {  // an arrow key is an escape sequence, too: the rest of it must not steer
            line.clear();
            at = input.size();
        }
        if ((c == '\x7f' || c == '\b') && !line.empty()) line.pop_back();
        if (c >= ' ' && c <= '~' && line.size() < max_bytes) line += c;
    }
    input.erase(0, at);
    return has_ended;
}

#ifdef _WIN32
/// The console of this process, in the modes that a game needs. The destructor restores the former modes.
struct Terminal::System {
    static bool is_present() {
        DWORD input = 0, output = 0;
        if (!GetConsoleMode(GetStdHandle(STD_INPUT_HANDLE), &input)) return false;
        const HANDLE handle = GetStdHandle(STD_OUTPUT_HANDLE);
        if (!GetConsoleMode(handle, &output) || !SetConsoleMode(handle, drawing(output))) return false;
        SetConsoleMode(handle, output);
        return true;
    }

    System() {
        GetConsoleMode(input_, &input_before_);
        GetConsoleMode(output_, &output_before_);
        // Ctrl-C stays a signal. A click would select text, and all output would wait until the selection
        // ends.
        constexpr DWORD kUnwanted = ENABLE_LINE_INPUT | ENABLE_ECHO_INPUT | ENABLE_QUICK_EDIT_MODE;
        SetConsoleMode(input_, (input_before_ & ~kUnwanted) | ENABLE_EXTENDED_FLAGS);
        SetConsoleMode(output_, drawing(output_before_));
    }
    ~System() {
        SetConsoleMode(output_, output_before_);
        SetConsoleMode(input_, input_before_);
    }

    Size size() const {
        CONSOLE_SCREEN_BUFFER_INFO info{};
        if (!GetConsoleScreenBufferInfo(output_, &info)) return {};
        return {info.srWindow.Right - info.srWindow.Left + 1, info.srWindow.Bottom - info.srWindow.Top + 1};
    }

    /// Appends the keys as the bytes that terminals of other systems send for them.
    void read(std::string& input) {
        std::array<INPUT_RECORD, 64> events;
        DWORD count = 0;
        while (PeekConsoleInputA(input_, events.data(), 1, &count) && count > 0) {
            if (!ReadConsoleInputA(input_, events.data(), static_cast<DWORD>(events.size()), &count)) return;
            for (DWORD i = 0; i < count; ++i) {
                const KEY_EVENT_RECORD& key = events[i].Event.KeyEvent;
                if (events[i].EventType != KEY_EVENT || !key.bKeyDown) continue;
                if (key.wVirtualKeyCode >= VK_LEFT && key.wVirtualKeyCode <= VK_DOWN) {
                    constexpr std::string_view kLetters = "DACB";  // left, up, right, down
                    input += {'\x1b', '[', kLetters[key.wVirtualKeyCode - std::size_t{VK_LEFT}]};
                } else if (key.uChar.AsciiChar != 0) {
                    input += key.uChar.AsciiChar;
                }
            }
        }
    }

    /// Returns how many bytes were written; 0 if the terminal is closed.
    std::size_t write(std::string_view bytes) {
        DWORD count = 0;
        const BOOL is_written =
            WriteFile(output_, bytes.data(), static_cast<DWORD>(bytes.size()), &count, nullptr);
        return is_written ? count : 0;
    }

private:
    static DWORD drawing(DWORD mode) {
        mode |= ENABLE_PROCESSED_OUTPUT | ENABLE_VIRTUAL_TERMINAL_PROCESSING;
        return mode & ~DWORD{ENABLE_WRAP_AT_EOL_OUTPUT};  // some versions ignore the escape sequence for it
    }

    HANDLE input_ = GetStdHandle(STD_INPUT_HANDLE), output_ = GetStdHandle(STD_OUTPUT_HANDLE);
    DWORD input_before_ = 0, output_before_ = 0;
};
#else
/// The terminal of this process, in the modes that a game needs. The destructor restores the former modes.
struct Terminal::System {
    static bool is_present() {
        const char* const kind = std::getenv("TERM");
        return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && kind != nullptr &&
               std::string_view(kind) != "dumb";
    }

    System() {
        tcgetattr(STDIN_FILENO, &before_);
        termios raw = before_;
        raw.c_lflag &= static_cast<tcflag_t>(~(ICANON | ECHO));  // Ctrl-C stays a signal
        raw.c_cc[VMIN] = 0;
        raw.c_cc[VTIME] = 0;
        raw.c_cc[VSUSP] = raw.c_cc[VQUIT] = _POSIX_VDISABLE;  // these signals would not restore the terminal
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw);
    }
    ~System() { tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_); }

    Size size() const {
        winsize size{};
        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
        return {size.ws_col, size.ws_row};
    }

    void read(std::string& input) {
        std::array<char, 256> bytes;
        const ssize_t count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
        if (count > 0) input.append(bytes.data(), static_cast<std::size_t>(count));
    }

    /// Returns how many bytes were written; 0 if the terminal is closed.
    std::size_t write(std::string_view bytes) {
        ssize_t count = 0;
        do count = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
        while (count < 0 && (errno == EINTR || errno == EAGAIN));
        return count < 0 ? 0 : static_cast<std::size_t>(count);
    }

private:
    termios before_{};
};
#endif

bool Terminal::is_present() {
    return System::is_present();
}

Terminal::Terminal() : system_(std::make_unique<System>()) {
    write("\x1b[?1049h\x1b[?25l\x1b[?7l");  // other screen, no cursor, no line wrap
}

Terminal::~Terminal() {
    write("\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l");
}

Terminal::Size Terminal::size() const {
    return system_->size();
}

std::vector<Key> Terminal::keys() {
    system_->read(input_);
    return take_keys(input_);
}

bool Terminal::read_line(std::string& line, std::size_t max_bytes) {
    system_->read(input_);
    return take_line(input_, line, max_bytes);
}

void Terminal::write(std::string_view bytes) {
    while (!bytes.empty()) {
        const std::size_t count = system_->write(bytes);
        if (count == 0) return;  // the terminal is closed
        bytes.remove_prefix(count);
    }
}

}  // namespace shoal::demo
