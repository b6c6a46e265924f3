#pragma once
// A frame of coloured characters in memory. Only cells that differ from the last frame are sent to the
// terminal.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::demo {

/// Colours are numbers of the 256-colour palette.
struct Style {
    std::uint8_t ink = 7, paper = 0;
    bool bold = false;
    bool operator==(const Style&) const = default;
};

class Screen {
public:
    /// A new size clears the frame, and the next update() draws all of it. Each side is clamped to 1..1000.
    void resize(int columns, int rows);
    int columns() const { return columns_; }
    int rows() const { return rows_; }

    void clear(const Style& style);

    /// Positions outside the frame are ignored. Characters that are not printable ASCII become '?', so that
    /// no text can control the terminal.
    void put(int column, int row, char glyph, const Style& style);
    void text(int column, int row, std::string_view text, const Style& style);

    /// Returns the bytes that make the terminal show this frame; empty if it shows it already.
    std::string update();

private:
    struct Cell {
        char glyph = ' ';
        Style style;
        bool operator==(const Cell&) const = default;
    };

    int columns_ = 0, rows_ = 0;
    std::vector<Cell> cells_, shown_;
    bool is_new_ = true;  // it is not known what the terminal shows
};

}  // namespace shoal::demo
