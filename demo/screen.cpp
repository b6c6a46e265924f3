#include "screen.h"

#include <algorithm>

namespace shoal::demo {
namespace {

std::string escape_of(const Style& style) {
    return std::string("\x1b[0;") + (style.bold ? "1;" : "") + "38;5;" + std::to_string(style.ink) +
           ";48;5;" + std::to_string(style.paper) + "m";
}

}  // namespace

void Screen::resize(int columns, int rows) {
    columns = std::clamp(columns, 1, 1000);
    rows = std::clamp(rows, 1, 1000);
    if (columns == columns_ && rows == rows_) return;
    columns_ = columns;
    rows_ = rows;
    cells_.assign(static_cast<std::size_t>(columns) * static_cast<std::size_t>(rows), Cell{});
    is_new_ = true;
}

void Screen::clear(const Style& style) {
    std::ranges::fill(cells_, Cell{' ', style});
}

void Screen::put(int column, int row, char glyph, const Style& style) {
    if (column < 0 || row < 0 || column >= columns_ || row >= rows_) return;
    const auto index =
        static_cast<std::size_t>(row) * static_cast<std::size_t>(columns_) + static_cast<std::size_t>(column);
    cells_[index] = {glyph < ' ' || glyph > '~' ? '?' : glyph, style};
}

void Screen::text(int column, int row, std::string_view text, const Style& style) {
    for (const char glyph : text) put(column++, row, glyph, style);
}

std::string Screen::update() {
    std::string out;
    if (is_new_) {
        out += "\x1b[0m\x1b[2J";
        shown_.assign(cells_.size(), Cell{});
    }
    const Cell* last = nullptr;  // the cell written last; the cursor is behind it, with its style
    for (std::size_t i = 0; i < cells_.size(); ++i) {
        const Cell& cell = cells_[i];
        if (!is_new_ && cell == shown_[i]) continue;
        const auto width = static_cast<std::size_t>(columns_);
        if (last == nullptr || last + 1 != &cell || i % width == 0)
            out += "\x1b[" + std::to_string(i / width + 1) + ";" + std::to_string(i % width + 1) + "H";
        if (last == nullptr || last->style != cell.style) out += escape_of(cell.style);
        out += cell.glyph;
        last = &cell;
    }
    shown_ = cells_;
    is_new_ = false;
    // These sequences begin and end synchronised output: a terminal that supports it shows the whole frame
    // at once. Others ignore them.
    return out.empty() ? out : "\x1b[?2026h" + out + "\x1b[?2026l";
}

}  // namespace shoal::demo
