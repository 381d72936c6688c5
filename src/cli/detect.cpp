#include "cli/command.h"

namespace longhaul::cli {

void add_detect_trial(Command& detect_group);

void add_detect(Command& program) {
  Command detect = program.add_group("detect", "the faulty machine among thousands, from one-second metrics (Minder)",
                                     {{"sixteen machines, one of them faulty perhaps", "detect simulate --machines 16 --seed 1 --out cases/one"},
                                      {"models from cases", "detect train cases --out minder.safetensors"},
                                      {"which machine?", "detect run cases/one --models minder.safetensors"}});
  add_detect_trial(detect);
}

}  // namespace longhaul::cli
