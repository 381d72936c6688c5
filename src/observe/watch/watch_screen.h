// A run as a screen of text, for `longhaul watch RUN`: its state, its loss as a line of blocks, its ranks,
// the last incidents and the firing alerts. It has as many lines as are given; control characters in foreign
// text are shown, never obeyed.
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
// "▇▆▅▃▂▁": means over as many columns; not finite: a blank.
std::string block_line(const std::vector<double>& values, int columns);

}  // namespace longhaul::observe
