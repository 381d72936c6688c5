// A model with more rows of the vocabulary than the trained one that it begins as: the trained rows are kept,
// the new ones get their mean, for the whole table and for the part of a rank.
#include <gmock/gmock.h>

#include "checkpoint/starting_point.h"
#include "published_for_tests.h"

namespace longhaul::checkpoint {
namespace {

using ::testing::HasSubstr;

class GrowingVocabulary : public PublishedTest {
 protected:
  GrowingVocabulary() {
    import_model(kGolden / "llama" / "model", folder_.path() / "trained");
    from_ = StartingPoint::open(folder_.path() / "trained");
  }
  recipe::LoadedRecipe recipe_with(const std::vector<std::string>& words) const {
    std::vector<std::string> all = {"model.family=longhaul", "train.sequence=32",
                                    "data.tokenizer=tokenizer.json"};
    all.insert(all.end(), words.begin(), words.end());
    const recipe::FirstWords first = from_->first_words();
    std::ofstream(folder_.path() / "grown.toml") << "version = 1\n";
    return recipe::load(folder_.path() / "grown.toml", all, &first);
  }
  // Rows [first, first + rows) of the embedding, whose table has `more` rows beyond the trained ones.
  Tensor rows_of(const recipe::LoadedRecipe& recipe, int64_t first, int64_t rows) const {
    for (const auto& spec : layout::parameters(recipe.recipe.model)) {
      if (spec.tensor.global_shape.size() != 2 ||
          spec.tensor.global_shape[0] != recipe.recipe.model.vocabulary)
        continue;
      const int64_t columns = spec.tensor.global_shape[1];
      Tensor view = at::full({rows, columns}, std::numeric_limits<double>::quiet_NaN(), at::kDouble);
      from_->read({{.name = spec.tensor.name,
                    .file = "model",
                    .role = kWeightRole,
                    .shape = spec.tensor.global_shape,
                    .held = {.offset = {first, 0}, .length = {rows, columns}},
                    .view = view}},
                  recipe);
      return view;
    }
    return {};
  }
  std::shared_ptr<const StartingPoint> from_;
};

TEST_F(GrowingVocabulary, KeepsTrainedRowsAndGivesTheOthersTheirMean) {
  const int64_t trained = from_->model().vocabulary;
  const recipe::LoadedRecipe same = recipe_with({}),
                             grown = recipe_with({fmt::format("model.vocabulary={}", trained + 3)});
  EXPECT_EQ(from_->require_fitting(same), "");
  EXPECT_THAT(from_->require_fitting(grown),
              HasSubstr(fmt::format("the vocabulary grows from {} to {} rows", trained, trained + 3)));
  const Tensor old = rows_of(same, 0, trained), all = rows_of(grown, 0, trained + 3);
  EXPECT_TRUE(at::equal(all.narrow(0, 0, trained), old));
  std::vector<double> mean(static_cast<size_t>(old.size(1)));
  for (int64_t r = 0; r < trained; ++r) {
    for (int64_t c = 0; c < old.size(1); ++c)
      mean[static_cast<size_t>(c)] += old[r][c].item<double>() / static_cast<double>(trained);
  }
  for (int64_t r = trained; r < trained + 3; ++r) {
    for (int64_t c = 0; c < old.size(1); ++c)
      EXPECT_NEAR(all[r][c].item<double>(), mean[static_cast<size_t>(c)], 1e-12);
  }
  EXPECT_TRUE(at::equal(rows_of(grown, trained - 2, 4), all.narrow(0, trained - 2, 4)))
      << "a part that holds rows of both kinds";
  EXPECT_TRUE(at::equal(rows_of(grown, trained + 1, 2), all.narrow(0, trained + 1, 2)))
      << "and one of new rows alone";
}

TEST_F(GrowingVocabulary, FewerRowsAreRefused) {
  const recipe::LoadedRecipe fewer =
      recipe_with({fmt::format("model.vocabulary={}", from_->model().vocabulary - 1)});
  EXPECT_THROW(from_->require_fitting(fewer), Error);
}

}  // namespace
}  // namespace longhaul::checkpoint
