#include "text.h"

#include <algorithm>

namespace shoal::demo {
namespace {

bool is_printable(char c) {
    return c >= ' ' && c <= '~';
}

}  // namespace

std::string printable(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if (!is_printable(c)) c = '?';
    return out;
}

bool is_printable(std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return is_printable(c); });
}

}  // namespace shoal::demo
