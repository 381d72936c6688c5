// The raster picture of spikes: a file of SVG with a panel for each matrix, a row for each of its input
// channels and a column for each step of each token. A bar stands where a spike is, above the row's middle
// for +1 and below it for −1. A token's steps lie between two lines, under the token's text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace longhaul::observe {

struct Spike {
  int64_t column = 0, channel = 0;
  int sign = 1;  // or −1
};

struct SpikePanel {
  std::string name;  // of the matrix
  int64_t channels = 0;
  std::vector<int64_t> steps;       // of each token; its columns follow those of the tokens before it
  std::vector<std::string> tokens;  // their texts
  std::vector<Spike> spikes;
};

std::string spike_raster_svg(const std::string& title, const std::vector<SpikePanel>& panels);

}  // namespace longhaul::observe
