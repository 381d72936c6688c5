#include "puzzles/cipher/cipher.h"

#include <algorithm>

#include "base/text/text.h"
#include "puzzles/cipher/steps.h"
#include "puzzles/engine/answers/answer.h"
#include "puzzles/engine/given.h"
#include "puzzles/engine/words/dictionary.h"

namespace longhaul::puzzles::cipher {
namespace {

constexpr std::string_view kKey = "cipher";
constexpr size_t kLongestText = 1000;
constexpr Knob kKnobs[] = {
    {"tier", 1, 3, 1, 3, "1: letter by letter; 2: also transpositions; 3: letters are taken apart"},
    {"length", 3, 40, 3, 20, "letters of the text"},
    {"second_percent", 0, 100, 0, 60, "percent of the puzzles with a second step"}};

struct Step {
  const Cipher* cipher = nullptr;
  nlohmann::json key;
};
struct Given {
  bool encrypt = true;
  std::string text;
  std::vector<Step> steps;
};

std::optional<std::string> encrypted(const std::vector<Step>& steps, std::string text) {
  for (const Step& step : steps) {
    std::optional<std::string> next = step.cipher->encrypt(step.key, text);
    if (!next) return std::nullopt;
    text = std::move(*next);
  }
  return text;
}

std::optional<std::string> decrypted(const std::vector<Step>& steps, std::string text) {
  for (size_t i = steps.size(); i-- > 0;) {
    std::optional<std::string> before = steps[i].cipher->decrypt(steps[i].key, text);
    if (!before) return std::nullopt;
    text = std::move(*before);
  }
  return text;
}

std::string drawn_text(int64_t length, Draw& draw) {
  std::string text;
  while (static_cast<int64_t>(text.size()) < length) {
    if (draw.chance(30)) {
      text += static_cast<char>('A' + static_cast<char>(draw.below(26)));
    } else {
      for (const char c : dictionary()[draw.below(dictionary().size())])
        text += static_cast<char>(c - 'a' + 'A');
    }
  }
  return text.substr(0, static_cast<size_t>(length));
}

std::vector<Step> drawn_steps(const KnobValues& knobs, Draw& draw) {
  const int64_t tier = knobs["tier"], steps = draw.chance(knobs["second_percent"]) ? 2 : 1;
  std::vector<Step> all;
  for (int64_t i = 0; i < steps; ++i) {
    std::vector<const Cipher*> may;
    for (const Cipher& cipher : ciphers()) {
      const bool twice = !all.empty() && all[0].cipher == &cipher;
      if (cipher.tier <= tier && cipher.tier + 1 >= tier && (i + 1 == steps || cipher.gives_letters) &&
          !twice)
        may.push_back(&cipher);
    }
    const Cipher* cipher = draw.pick(may);
    all.push_back({cipher, cipher->draw(draw)});
  }
  return all;
}

nlohmann::json given_of(const Given& puzzle) {
  nlohmann::json steps = nlohmann::json::array();
  for (const Step& step : puzzle.steps) {
    nlohmann::json one = step.key;
    one["cipher"] = step.cipher->name;
    steps.push_back(std::move(one));
  }
  return {{"direction", puzzle.encrypt ? "encrypt" : "decrypt"}, {"text", puzzle.text}, {"steps", steps}};
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  const std::string plain = drawn_text(knobs["length"], draw);
  Given puzzle{.encrypt = draw.chance(50), .steps = drawn_steps(knobs, draw)};
  const std::optional<std::string> code = encrypted(puzzle.steps, plain);
  if (!code || *code == plain || decrypted(puzzle.steps, *code) != plain) return std::nullopt;
  puzzle.text = puzzle.encrypt ? plain : *code;
  return Puzzle{.given = given_of(puzzle),
                .solution = fmt::format("[[\"{}\"]]", puzzle.encrypt ? *code : plain)};
}

Given read_given(const nlohmann::json& given) {
  const std::string direction = text_of(member_of(given, "direction", kKey), "\"direction\"", kKey);
  Given puzzle{.encrypt = direction == "encrypt",
               .text = text_of(member_of(given, "text", kKey), "\"text\"", kKey)};
  if ((direction != "encrypt" && direction != "decrypt") || puzzle.text.empty() ||
      puzzle.text.size() > kLongestText ||
      puzzle.text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789^ ") != std::string::npos)
    refuse_given(kKey, "\"direction\": \"encrypt\" or \"decrypt\", and \"text\": letters of A to Z, or codes",
                 given);
  if (puzzle.encrypt && puzzle.text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") != std::string::npos)
    refuse_given(kKey, "\"text\": letters of A to Z", given);
  for (const nlohmann::json& one : list_of(member_of(given, "steps", kKey), 1, 4, "\"steps\"", kKey)) {
    const std::string& name = text_of(member_of(one, "cipher", kKey), "\"cipher\"", kKey);
    const auto cipher = std::ranges::find(ciphers(), name, &Cipher::name);
    if (cipher == ciphers().end() || !cipher->is_key(one))
      refuse_given(kKey, "steps of known ciphers with all their keys", one);
    if (!puzzle.steps.empty() && !puzzle.steps.back().cipher->gives_letters)
      refuse_given(kKey, "codes that are no letters from the last step only", one);
    puzzle.steps.push_back({&*cipher, one});
    puzzle.steps.back().key.erase("cipher");
  }
  return puzzle;
}

// In upper case, with one blank between codes; without [[ ]] and quotes where they are there.
std::string plain_answer(std::string_view payload) {
  payload = trimmed(payload);
  if (payload.starts_with("[[") && payload.ends_with("]]") && payload.size() >= 4)
    payload = trimmed(payload.substr(2, payload.size() - 4));
  if (payload.size() >= 2 && (payload[0] == '"' || payload[0] == '\'') && payload.back() == payload[0])
    payload = trimmed(payload.substr(1, payload.size() - 2));
  std::string text;
  for (const char c : payload) {
    const char upper = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    if (upper != ' ' || !text.ends_with(' ')) text += upper;
  }
  return text;
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const Given puzzle = read_given(given);
  const std::optional<std::string> right =
      puzzle.encrypt ? encrypted(puzzle.steps, puzzle.text) : decrypted(puzzle.steps, puzzle.text);
  if (!right) refuse_given(kKey, "a text that its steps can treat", given);
  const std::string answer = plain_answer(payload);
  if (answer.empty() ||
      answer.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789^ ") != std::string::npos)
    return {VerdictCode::kUnreadable, "no text of letters, digits and ^"};
  if (answer.size() != right->size())
    return {VerdictCode::kShape, fmt::format("{} characters, not {}", answer.size(), right->size())};
  if (answer != *right)
    return {VerdictCode::kRuleBroken, puzzle.encrypt ? "it is not the encrypted text" : "it is not the text"};
  return {};
}

std::string canonical(const nlohmann::json& given) { return given_of(read_given(given)).dump(); }

PromptParts english(bool encrypt) {
  return {
      .openings = {"Here is a cipher. Use it on the text below.", "Apply the cipher that is described here.",
                   "Please solve this task about a cipher.", "Work with the following cipher.",
                   "Read how the cipher works, then treat the text.", "Use the cipher described below.",
                   "This is a puzzle of ciphers.", "Follow the description of the cipher exactly."},
      .rules = {fmt::format(
                    "Texts consist of the letters A to Z. A text is encrypted by the steps described, in "
                    "their order; each step treats what the step before it has "
                    "given. To decrypt, the steps are undone in the opposite order. You are to {} the text.",
                    encrypt ? "encrypt" : "decrypt"),
                fmt::format("Rules: to encrypt a text of the letters A to Z, apply all steps one after the "
                            "other, each to the result of the one before. To decrypt, undo the "
                            "last step first. Your task is to {} the given text.",
                            encrypt ? "encrypt" : "decrypt")},
      .formats = {
          R"(Answer with the resulting text between double brackets and quotes, in a form like [["TEXT"]]. Keep the blanks between codes where there are codes.)",
          R"(Write the result as [["TEXT"]], with your text in place of TEXT, and with single blanks between codes where it consists of codes.)"}};
}

PromptParts chinese(bool encrypt) {
  return {
      .openings = {"这里有一种密码，请把它用于下面的文本。", "请使用这里描述的密码。", "请解这道密码题。",
                   "请用下面的密码进行处理。", "请阅读密码的用法，然后处理文本。", "请使用下面描述的密码。",
                   "这是一道密码谜题。", "请严格按照密码的说明操作。"},
      .rules = {fmt::format("文本由字母 A 到 Z "
                            "组成。加密时按所述步骤的次序进行，每一步处理前一步得到的结果。解密时按相反的次序"
                            "撤销各步骤。请将文本{}。",
                            encrypt ? "加密" : "解密"),
                fmt::format("规则：要加密由字母 A 到 Z "
                            "组成的文本，依次执行所有步骤，每一步用于前一步的结果。解密时先撤销最后一步。你的"
                            "任务是将给出的文本{}。",
                            encrypt ? "加密" : "解密")},
      .formats = {
          R"(请把得到的文本写在双方括号和引号中，形式如 [["TEXT"]]。如果结果是代码，请保留代码之间的空格。)",
          R"(请把结果写成 [["TEXT"]]，用你的文本代替 TEXT；如果由代码组成，代码之间用一个空格隔开。)"}};
}

std::string key_text(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::vector<int64_t> numbers = value.get<std::vector<int64_t>>();
  return fmt::format("{}", fmt::join(numbers, " "));
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  const Given puzzle = read_given(given);
  const bool zh = language == Language::kChinese;
  std::string board;
  for (size_t i = 0; i < puzzle.steps.size(); ++i) {
    const Step& step = puzzle.steps[i];
    board += fmt::format(fmt::runtime(zh ? "步骤 {}：{}\n" : "Step {}: {}\n"), i + 1,
                         zh ? step.cipher->chinese : step.cipher->english);
    for (const auto& [name, value] : step.key.items())
      board += fmt::format("{} = {}\n", name, key_text(value));
  }
  board += (zh ? "文本：" : "Text: ") + puzzle.text;
  return prompt_of(zh ? chinese(puzzle.encrypt) : english(puzzle.encrypt), board, which);
}

const TaskEntry kTask = {.key = "cipher",
                         .title = "Encrypt or decrypt by a described cipher",
                         .version = 3,
                         .uniqueness = Uniqueness::kComputed,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = nullptr,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::cipher
