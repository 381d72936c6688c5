#include "model/families/rotary_fields.h"

namespace longhaul::model {
namespace {

void read_scaling(ConfigReader reader, recipe::ModelConfig& config) {
  recipe::SoftmaxOptions& softmax = config.softmax;
  softmax.rotary_base = reader.number_or("rope_theta", softmax.rotary_base);
  const std::string older = reader.text_or("type", "default"), type = reader.text_or("rope_type", older);
  reader.must_be("partial_rotary_factor", 1.0, "whole heads are rotated in this family");
  if (type == "linear") {
    softmax.rotary_scaling = recipe::RotaryScaling::kLinear;
  } else if (type == "llama3") {
    softmax.rotary_scaling = recipe::RotaryScaling::kLlama3;
    softmax.rotary_low = reader.number_or("low_freq_factor", 1);
    softmax.rotary_high = reader.number_or("high_freq_factor", 4);
    softmax.rotary_original = reader.integer_or("original_max_position_embeddings", config.max_positions);
  } else if (type != "default") {
    reader.refuse("rope_type", "default, linear or llama3", type,
                  "other ways to stretch rotary positions are not there yet");
  }
  if (type != "default") softmax.rotary_factor = reader.number_or("factor", 1);
  reader.finish();
}

}  // namespace

void read_rotary(ConfigReader& reader, recipe::ModelConfig& config, double base_otherwise) {
  config.position = recipe::Position::kRotary;
  config.softmax.rotary_dim = config.head_dim;
  config.softmax.rotary_base = reader.number_or("rope_theta", base_otherwise);
  reader.must_be("partial_rotary_factor", 1.0, "whole heads are rotated in this family");
  // Of both, transformers takes rope_scaling.
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (reader.object(key) != nullptr) read_scaling(reader.inner(key), config);
  }
}

void write_rotary(const recipe::ModelConfig& config, nlohmann::ordered_json& json) {
  const recipe::SoftmaxOptions& softmax = config.softmax;
  nlohmann::ordered_json rope = {{"rope_theta", softmax.rotary_base}, {"rope_type", "default"}};
  if (softmax.rotary_scaling != recipe::RotaryScaling::kNone) {
    rope["factor"] = softmax.rotary_factor;
    rope["rope_type"] = "linear";
  }
  if (softmax.rotary_scaling == recipe::RotaryScaling::kLlama3) {
    rope["rope_type"] = "llama3";
    rope["low_freq_factor"] = softmax.rotary_low;
    rope["high_freq_factor"] = softmax.rotary_high;
    rope["original_max_position_embeddings"] = softmax.rotary_original;
  }
  json["rope_parameters"] = rope;
  json["rope_theta"] = softmax.rotary_base;
  json.erase("rope_scaling");
  if (softmax.rotary_scaling != recipe::RotaryScaling::kNone) {
    rope.erase("rope_theta");
    json["rope_scaling"] = rope;
  }
}

}  // namespace longhaul::model
