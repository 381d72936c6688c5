// MeshPicture: the ranks of a mesh as fields, and arrows between them, as one self-contained SVG: it shows
// which rank waits for which when a run hangs. The fastest axis runs across, the next one down, the next
// across in blocks, the next down in blocks. The colour, sign and tooltip of a field all show its meaning.
// Light or dark follows the reader's system.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace longhaul::observe {

struct MeshPicture {
  struct Axis {
    std::string name;  // "tp"
    int64_t size = 1;
  };
  enum class Mark { kPlain, kWaits, kSuspect, kSilent };  // silent: nothing is known of it
  struct Field {
    int64_t rank = 0;
    Mark mark = Mark::kPlain;
    std::string tooltip;
  };
  struct Arrow {
    int64_t from = 0, to = 0;
    std::string tooltip;
  };
  std::string title, caption;
  std::vector<Axis> axes;     // slowest first; their product is the number of ranks
  std::vector<Field> fields;  // ranks without a field are plain
  std::vector<Arrow> arrows;  // the first kMostArrows are drawn, the rest is counted
  static constexpr size_t kMostArrows = 400;

  std::string svg() const;
};

}  // namespace longhaul::observe
