#include "plan/hardware.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text/text.h"

namespace longhaul::plan {

// Rates of links are those that collective calls reach, not the nominal ones: SimAI's per-link figures (20.0
// GB/s × 12 for A100, 20.6 × 18 for H100; 8 links fewer on A800 and H800), 23.5 GB/s for a CX6 and 48.5 for a
// CX7 (github.com/aliyun/SimAI). Where it has none: nominal × 0.82.
const std::vector<Accelerator>& accelerators() {
  static const std::vector<Accelerator> all = {
      {"v100", 125e12, 0, 32e9, 900e9, 125e9, 11.75e9, 8, 300,
       "NVIDIA V100 data sheet (fp16); link and NIC: nominal × 0.82"},
      {"a100-40", 312e12, 0, 40e9, 1555e9, 240e9, 23.5e9, 8, 400, "NVIDIA A100 data sheet; links: SimAI"},
      {"a100", 312e12, 0, 80e9, 2039e9, 240e9, 23.5e9, 8, 400, "NVIDIA A100 data sheet; links: SimAI"},
      {"a800", 312e12, 0, 80e9, 2039e9, 160e9, 23.5e9, 8, 400, "NVIDIA A800 data sheet; links: SimAI"},
      {"h100", 989.5e12, 1979e12, 80e9, 3350e9, 370.8e9, 48.5e9, 8, 700,
       "NVIDIA H100 SXM data sheet; links: SimAI"},
      {"h800", 989.5e12, 1979e12, 80e9, 3350e9, 164.8e9, 48.5e9, 8, 700,
       "NVIDIA H800 data sheet; links: SimAI"},
      {"h200", 989.5e12, 1979e12, 141e9, 4800e9, 370.8e9, 48.5e9, 8, 700,
       "NVIDIA H200 data sheet; links: as H100"},
      {"h20", 148e12, 296e12, 96e9, 4000e9, 370.8e9, 48.5e9, 8, 400,
       "from memory, unconfirmed; links: SimAI"},
      {"b200", 2250e12, 4500e12, 186e9, 8000e9, 738e9, 48.5e9, 8, 1000,
       "NVIDIA B200 data sheet; link: nominal × 0.82"},
      {"gb200", 2500e12, 5000e12, 186e9, 8000e9, 738e9, 48.5e9, 72, 1200,
       "NVIDIA GB200 NVL72 data sheet; link: nominal × 0.82; watts approximate"},
  };
  return all;
}

const Accelerator& accelerator(std::string_view name) {
  std::vector<std::string> names;
  for (const Accelerator& row : accelerators()) {
    if (row.name == name) return row;
    names.push_back(row.name);
  }
  const std::string near = nearest_spelling(std::string(name), names);
  throw Error({.code = ExitCode::kUsage,
               .what = "no such accelerator",
               .expected = fmt::format("one of {}", fmt::join(names, ", ")),
               .found = std::string(name),
               .hint = near.empty() ? "" : near});
}

}  // namespace longhaul::plan
