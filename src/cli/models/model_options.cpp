#include "cli/models/model_options.h"

namespace longhaul::cli {

void add_model_options(Command& command, std::string& dtype, std::string& experts, std::string& weights,
                       std::string& device) {
  command.option("--dtype", dtype, "bf16, fp32 or fp64 (default: as trained)");
  command
      .option("--experts", experts,
              "int8: weights of experts in eight bits (docs/design/decoding.md; default: as --dtype says)")
      .one_of({"int8"});
  command
      .option("--weights", weights,
              "int8: all linear layers in eight bits, a scale for every 128 inputs (docs/design/decoding.md; "
              "default: as --dtype says)")
      .one_of({"int8"});
  command.option("--device", device, "auto (a GPU when there is one), cpu, cuda or cuda:N").default_shown();
}

void add_cache_option(Command& command, std::string& kv_cache) {
  command
      .option("--kv-cache", kv_cache,
              "int8: keys and values of softmax attention in eight bits, a scale for each head and token "
              "(docs/design/decoding.md; default: as --dtype says)")
      .one_of({"int8"});
}

void add_spike_options(Command& command, checkpoint::SpikeRequest& spikes) {
  command.flag("--spikes", spikes.wanted,
               "inputs of matrices as counts of spikes, weights in eight bits, products in whole numbers "
               "(docs/guides/spikes.md)");
  command
      .option("--spikes-k", spikes.k,
              "a spike's threshold is the mean size of a token's input divided by it (default: as trained, "
              "or 3)")
      .above(0)
      .at_most(recipe::kMostSpikeK);
  command
      .option("--spikes-coding", spikes.coding,
              "what is counted as a spike; never a result (default: as trained, or signed_bits)")
      .one_of({"binary", "ternary", "unsigned_bits", "signed_bits", "twos_complement"});
}

void add_spike_texts(Command& command, std::string& file) {
  command.option(
      "--spikes-texts", file,
      "texts that the eight-bit weights are rounded for: a file with one in each line, or .jsonl as "
      "`sample --prompts` takes it; the first 128 are read (default: none, by the largest weights)");
}

}  // namespace longhaul::cli
