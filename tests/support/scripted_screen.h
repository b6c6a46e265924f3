#pragma once
// The screen of README.md's game in tests/vendor.sh: plays keys of a script, and prints each text once. With
// the environment variable SHOOTER the script moves, talks, shoots until it has no ammunition, then shoots at
// the other ship until it hits, and ends the program. Each part waits for the text that shows its end,
// because a busy machine may draw few frames a second. Without SHOOTER, the program ends when the other
// player has left.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>

struct Keys {
    std::int8_t x = 0, y = 0;
    bool dash = false, fire = false;
    float aim_x = 0, aim_y = 0;
    std::string line;
};

class Screen {
public:
    Keys keys() {
        Keys keys;
        if (frame_ == 0) return keys;
        if (!is_shooter_) {
            if (frame_ == 5) keys.line = "/name ";
            return keys;
        }
        if (frame_ < 30) keys.x = -1;  // away from the other ship
        if (frame_ == 10) keys.dash = true;
        if (frame_ == 5) keys.line = "/name Ann";
        if (frame_ == 40) keys.line = "ahoy";
        const bool aims = printed_.contains("out of ammunition");
        keys.aim_x = aims ? 1.0f : 0.8f;
        keys.aim_y = aims ? 0.0f : 0.6f;
        const auto now = std::chrono::steady_clock::now();
        if (frame_ < 50 || hits_ > 0 || now < next_shot_) return keys;
        keys.fire = true;
        next_shot_ = now + std::chrono::milliseconds(110);  // not more than are allowed per second
        return keys;
    }

    void text(const std::string& line) {
        if (printed_.insert(line).second) std::printf("%s\n", line.c_str());
    }

    void put(float, float, const std::string& look) {
        ships_ += look[0] >= '0' && look[0] <= '9';
        text("sees " + look);
    }
    void status(const std::string& line) {
        hits_ = std::atoi(line.c_str());
        text(line);
    }

    /// Returns false when the program has to end.
    bool show() {
        const int ships = ships_;
        ships_ = 0;
        std::fflush(stdout);
        if (frame_ > 0 || ships == 2) frame_ += 1;  // the script begins when both players play
        after_hit_ += hits_ > 0;
        return is_shooter_ ? after_hit_ < 60 : frame_ == 0 || ships == 2;
    }

private:
    bool is_shooter_ = std::getenv("SHOOTER") != nullptr;
    int frame_ = 0, ships_ = 0, hits_ = 0;
    int after_hit_ = 0;  // frames
    std::chrono::steady_clock::time_point next_shot_{};
    std::set<std::string> printed_;
};
