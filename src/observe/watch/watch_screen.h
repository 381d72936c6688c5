// A run as a screen of text, for `longhaul watch RUN`: where it stands, its loss as a line of blocks, its ranks, the last incidents, what fires. As many lines
// as are given; control characters of others are shown, never obeyed.
#pragma once

#include <string>
#include <vector>

#include "observe/watch/alerts.h"
#include "observe/watch/live_run.h"

namespace longhaul::observe {

struct ScreenShape {
  int columns = 100, rows = 40;
  bool colours = false;
};

std::string watch_screen(const RunView& run, const std::vector<Alert>& firing, const ScreenShape& shape);
std::string block_line(const std::vector<double>& values, int columns);  // "▇▆▅▃▂▁": means of as many columns; not finite: a blank

}  // namespace longhaul::observe
