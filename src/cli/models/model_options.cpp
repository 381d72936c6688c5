#include "cli/models/model_options.h"

namespace longhaul::cli {

void add_model_options(Command& command, std::string& dtype, std::string& experts, std::string& device) {
  command.option("--dtype", dtype, "bf16, fp32 or fp64 (default: as trained)");
  command
      .option("--experts", experts,
              "int8: weights of experts in eight bits (docs/design/decoding.md; default: as --dtype says)")
      .one_of({"int8"});
  command.option("--device", device, "auto (a GPU when there is one), cpu, cuda or cuda:N").default_shown();
}

}  // namespace longhaul::cli
