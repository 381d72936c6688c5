// What whole runs in tests share: a hybrid with experts that a step takes milliseconds of, on the texts of
// folder/text.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace longhaul::run {

inline std::vector<std::string> tiny_run(const std::filesystem::path& folder) {
  return {"model.layers=2",
          "model.hidden=24",
          "model.heads=2",
          "model.kv_heads=2",
          "model.head_dim=8",
          "model.vocabulary=257",
          "model.mixers=lightning,softmax",
          "model.intermediate=20",
          "model.experts=4",
          "model.experts_per_token=2",
          "model.rotary_dim=4",
          "model.tie_embeddings=true",
          "data.tokenizer=bytes",
          "data.source=" + (folder / "text").string(),
          "data.cache=" + (folder / "cache").string(),
          "data.held_out_percent=20",
          "train.sequence=33",
          "train.evaluate_every=2",
          "train.evaluate_tokens=500",
          "train.threads=1",
          "optim.lr=0.01",
          "optim.warmup_steps=2",
          "optim.schedule=constant",
          "sample.tokens=0",
          "observe.compression_baseline=false",
          "observe.tensorboard=false",
          "observe.report=false"};
}

}  // namespace longhaul::run
