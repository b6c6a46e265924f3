#pragma once
// A frame of coloured characters, composed in memory; only what differs from the last one is sent.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::demo {

/// Colours of the usual 256.
struct Style {
    std::uint8_t ink = 7, paper = 0;
    bool bold = false;
    bool operator==(const Style&) const = default;
};

class Screen {
public:
    /// Forgets what the terminal shows if the size is another. At most 1000 each way.
    void resize(int columns, int rows);
    int columns() const { return columns_; }
    int rows() const { return rows_; }

    void clear(const Style& style);

    /// What lies outside is left out, and what is not printable ASCII becomes '?': nothing that is drawn can
    /// make the terminal do something else than draw.
    void put(int column, int row, char glyph, const Style& style);
    void text(int column, int row, std::string_view text, const Style& style);

    /// The bytes that make the terminal show this frame; empty if it does.
    std::string update();

private:
    struct Cell {
        char glyph = ' ';
        Style style;
        bool operator==(const Cell&) const = default;
    };

    int columns_ = 0, rows_ = 0;
    std::vector<Cell> cells_, shown_;
    bool is_new_ = true;  // the terminal may show anything
};

}  // namespace shoal::demo
