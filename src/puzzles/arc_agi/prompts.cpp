#include "puzzles/arc_agi/arc_agi.h"

namespace longhaul::puzzles::arc_agi {
namespace {

const PromptParts& english() {
  static const PromptParts parts = {
      .openings = {"Find the rule and apply it.",
                   "How does each input become its output? Apply the same to the test.",
                   "The examples below follow one rule. Use it on the test input.",
                   "Work out what the output of the test input is.",
                   "Here are examples of a change of grids. Make the same change once more.",
                   "Look at the pairs of grids and complete the last one.", "What is the missing output?",
                   "Please solve this puzzle of coloured grids."},
      .rules = {"Grids are lists of rows of colours from 0 to 9, where 0 is the background. One and the same "
                "rule, or sequence of rules, turns "
                "the input of each example into its output. The output may have another size than the input. "
                "Find the output of the test "
                "input.",
                "Rules: each number from 0 to 9 is a colour and 0 is the empty background. All examples show "
                "the same rule (it may consist of "
                "several steps), which makes an output from an input; sizes may change. Apply it to the test "
                "input."},
      .formats = {"Answer with the output grid as a JSON list of its rows, in a form like [[0, 1], [2, 3]].",
                  "Give the output of the test as a list of rows of numbers, for example [[0, 1], [2, 3]]."}};
  return parts;
}

const PromptParts& chinese() {
  static const PromptParts parts = {
      .openings = {"请找出规则并应用它。", "每个输入是怎样变成输出的？请对测试做同样的变换。",
                   "下面的例子遵循同一条规则，请把它用于测试输入。", "请推出测试输入的输出。",
                   "这里有一些网格变换的例子，请再做一次同样的变换。", "请观察成对的网格并补全最后一对。",
                   "缺少的输出是什么？", "请解这道彩色网格谜题。"},
      .rules = {"网格是由行组成的列表，每个数 0 到 9 是一种颜色，0 "
                "为背景。同一条规则（或同一串规则）把每个例子的输入变成输出。输出的大小可以与输入不同。"
                "请求出测试输入的输出。",
                "规则：0 到 9 的每个数是一种颜色，0 "
                "是空白背景。所有例子展示同一条规则（可以包含几个步骤），它由输入得到输出；大小可以改变。"
                "请把它用于测试输入。"},
      .formats = {"请用 JSON 给出输出网格的各行，形式如 [[0, 1], [2, 3]]。",
                  "请把测试的输出写成由各行数字组成的列表，例如 [[0, 1], [2, 3]]。"}};
  return parts;
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  const Demonstrated puzzle = read_given(given);
  const bool zh = language == Language::kChinese;
  std::string board;
  for (size_t i = 0; i < puzzle.train.size(); ++i)
    board +=
        fmt::format(fmt::runtime(zh ? "例 {}\n输入：{}\n输出：{}\n" : "Example {}\nInput: {}\nOutput: {}\n"),
                    i + 1, grid_payload(puzzle.train[i].input), grid_payload(puzzle.train[i].output));
  board += (zh ? "测试\n输入：" : "Test\nInput: ") + grid_payload(puzzle.test.input);
  return prompt_of(zh ? chinese() : english(), board, which);
}

}  // namespace longhaul::puzzles::arc_agi
