// What train.freeze marks in the list of a model's tensors, what it refuses, and which products of the passes
// are left.
#include "layout/freezing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

namespace longhaul::layout {
namespace {

using ::testing::HasSubstr;

recipe::ModelConfig two_layers() {
  recipe::ModelConfig model{
      .layers = 2, .hidden = 16, .vocabulary = 50, .heads = 2, .head_dim = 8, .softmax = {.kv_heads = 2}};
  model.intermediate = 12;
  return model;
}

std::set<std::string> frozen_of(const std::vector<std::string>& patterns) {
  recipe::ModelConfig model = two_layers();
  model.frozen = patterns;
  std::set<std::string> names;
  for (const ParameterSpec& spec : parameters(model)) {
    EXPECT_EQ(spec.trainable, !spec.frozen);
    if (spec.frozen) names.insert(spec.tensor.name);
  }
  return names;
}

TEST(Freezing, MarksTheTensorsThatAPatternFits) {
  EXPECT_TRUE(frozen_of({}).empty());
  EXPECT_EQ(frozen_of({"embedding.weight", "layers.1.*norm.weight"}),
            (std::set<std::string>{"embedding.weight", "layers.1.mixer_norm.weight",
                                   "layers.1.channel_norm.weight"}));
  EXPECT_EQ(frozen_of({"*"}).size(), parameters(two_layers()).size());
}

std::string refused(const std::vector<std::string>& patterns) {
  try {
    require_freezable(parameters(two_layers()), patterns);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.what();
  }
  return "";
}

TEST(Freezing, APatternThatFitsNothingIsRefusedWithNamesThatAreNear) {
  EXPECT_EQ(refused({"layers.1.*", "head.weight"}), "");
  const std::string text = refused({"layers.1.*", "layers.1.mixer.qurey.weight"});
  EXPECT_THAT(text, HasSubstr("\"layers.1.mixer.qurey.weight\""));
  EXPECT_THAT(text, HasSubstr("near are: layers.1.mixer.query.weight"));
  EXPECT_THAT(text, HasSubstr("train.freeze"));
  EXPECT_THAT(refused({"layers.7.*"}), HasSubstr("layers."));
  EXPECT_THAT(refused({"*"}), HasSubstr("nothing is left that trains"));
  EXPECT_EQ(refused({}), "");
}

TEST(Freezing, TensorsOfOneProductAreFrozenTogether) {
  std::vector<ParameterSpec> of_product;
  for (const char* name : {"query", "key", "value"})
    of_product.push_back({.tensor = {name, {2, 2}, Role::kQuery}});
  EXPECT_NO_THROW(require_frozen_together(of_product));
  freeze(of_product, {"query"});
  try {
    require_frozen_together(of_product);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("key, value"));
    EXPECT_THAT(error.what(), HasSubstr("frozen: query"));
  }
  freeze(of_product, {"*e*"});
  EXPECT_NO_THROW(require_frozen_together(of_product));
}

}  // namespace
}  // namespace longhaul::layout
