#include "puzzles/engine/words/words.h"
#include "puzzles/time_sequence/time_sequence.h"

namespace longhaul::puzzles::time_sequence {
namespace {

constexpr std::string_view kDayNames[kDays][2] = {{"Monday", "星期一"},
                                                  {"Tuesday", "星期二"},
                                                  {"Wednesday", "星期三"},
                                                  {"Thursday", "星期四"},
                                                  {"Friday", "星期五"}};

// {0}: the name. In the order of Rule.
constexpr std::string_view kRuleTexts[kRules][2] = {
    {"", ""},
    {"{0} rests for 10 minutes after each commitment and cannot meet then",
     "{0}在每个安排结束后要休息10分钟，这段时间不能开会"},
    {"{0} keeps the 10 minutes before each commitment free of meetings, to prepare",
     "{0}在每个安排开始前要准备10分钟，这段时间不能开会"},
    {"{0} must be out of the meeting by 16:00", "{0}的会议必须在16:00之前结束"},
    {"{0} has lunch on Wednesday from 12:30 to 13:00, besides what is listed",
     "除所列内容外，{0}星期三12:30到13:00要吃午饭"},
    {"{0} cancels every listed commitment that lies wholly between 9:00 and 9:45",
     "{0}会取消所有完全处于9:00到9:45之间的所列安排"},
    {"{0}'s times are told by a clock that is one hour ahead of the others' (10:00 in {0}'s list is 9:00 for "
     "the others), and {0} can meet from 9:00 to "
     "17:00 by that clock only",
     "{0}的时间是按比其他人快一小时的时钟写的（{0}列表中的10:00是其他人的9:00），并且{0}只能在该时钟的9:"
     "00到17:00之间开会"},
    {"{0} can meet on Tuesday and Thursday only, and for at most 60 minutes",
     "{0}只能在星期二和星期四开会，且最多60分钟"},
    {"{0} cancels every listed commitment of 30 minutes or less", "{0}会取消所有不超过30分钟的所列安排"},
    {"{0} cancels every listed commitment of 10 minutes or less", "{0}会取消所有不超过10分钟的所列安排"},
    {"{0} can meet on Tuesday and Friday only, and for at most 30 minutes",
     "{0}只能在星期二和星期五开会，且最多30分钟"}};

void write_clock(int64_t slot, std::string& text) {
  const int64_t minute = slot % 12 * 5;
  ((text += std::to_string(9 + slot / 12)) += ':') += static_cast<char>('0' + minute / 10);
  text += static_cast<char>('0' + minute % 10);
}

const PromptParts& english() {
  static const PromptParts parts = {
      .openings = {"Find the longest meeting that these people can have.",
                   "Some people look for time to meet.", "Here are the calendars of a week.",
                   "How long can everybody meet at most?", "Please plan a meeting from these calendars.",
                   "A meeting of all these people is to be as long as possible.",
                   "Work out the longest common free time.",
                   "Compare the calendars below and find the best meeting."},
      .rules = {"All of them must be free during the whole meeting, which takes place on one day, Monday to "
                "Friday, between 9:00 and 17:00. It begins on the "
                "hour or half past. On a day marked \"busy\" the listed times are a person's commitments and "
                "all other time is free; on a day "
                "marked \"free\" the listed times are free and all other time between 9:00 and 17:00 is "
                "taken up by commitments. Times "
                "do not include their last moment: a meeting may begin when a commitment ends. What is said "
                "of a person's habits holds as well.",
                "Rules: the meeting lies within one day from Monday to Friday and within 9:00 to 17:00; it "
                "starts at a full or half hour and may end at any "
                "time; nobody may be missing for any part of it. \"busy\" lists the commitments of a person "
                "on a day, everything else being free; "
                "\"free\" lists the free times of a day, everything else from 9:00 to 17:00 being "
                "commitments. Where a commitment ends, a "
                "meeting can begin at once. The remarks on single people must be kept too."},
      .formats = {"For each day and each possible start consider the longest meeting that can begin there. "
                  "Answer with a list of two whole numbers: the length "
                  "in minutes of the longest of all, and how many starts (day and time) allow that length; "
                  "[0, 0] if no meeting is possible.",
                  "Give [minutes, starts]: the greatest possible length in minutes, and the number of pairs "
                  "of day and starting time at which a meeting of that "
                  "length can begin. Where nobody can meet, that is [0, 0]."}};
  return parts;
}

const PromptParts& chinese() {
  static const PromptParts parts = {
      .openings = {"请找出这些人能开的最长的会议。", "几个人想找时间开会。", "下面是一周的日程。",
                   "大家最多能一起开多长时间的会？", "请根据这些日程安排一次会议。",
                   "所有这些人要开一个尽可能长的会。", "请求出最长的共同空闲时间。",
                   "请比较下面的日程，找出最好的会议时间。"},
      .rules = {"会议期间所有人都必须一直有空；会议在星期一到星期五的某一天内，9:00到17:"
                "00之间，从整点或半点开始。标有“忙”的日子列出的是该人的安排，其余时间空闲；"
                "标有“空”的日子列出的是空闲时间，9:00到17:"
                "00的其余时间都有安排。时间段不包括其结束的那一刻：安排一结束会议就可以开始。关于个人习惯的说"
                "明也同样有效。",
                "规则：会议在星期一到星期五中的一天之内，并在9:00到17:"
                "00之内；在整点或半点开始，可以在任何时刻结束；任何人都不能缺席任何一部分。“忙”列出某人当天的"
                "安排，"
                "其余时间空闲；“空”列出当天的空闲时间，9:00到17:"
                "00的其余时间都有安排。安排结束的时刻会议可以马上开始。对个人的说明也必须遵守。"},
      .formats = {
          "对每一天和每个可能的开始时间，考虑从那时开始的最长会议。请回答两个整数的列表：所有会议中最长的分钟"
          "数，以及有多少个开始时间（某天某时）能达到这个长度；如果无法开会则为 [0, 0]。",
          "请给出 [分钟数, "
          "开始数]：最大可能长度的分钟数，以及能开始这样长的会议的（日期，开始时间）的个数。无法开会时为 [0, "
          "0]。"}};
  return parts;
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  const size_t column = language == Language::kChinese ? 1 : 0;
  std::string board;
  for (const Person& person : read_people(given)) {
    const auto name = in_language(person.name, language);
    ((board += board.empty() ? "" : "\n") += name) += column == 1 ? "：\n" : ":\n";
    for (size_t day = 0; day < kDays; ++day) {
      const Times& told = person.days[day];
      (board += kDayNames[day][column]) += ", ";
      board += column == 1 ? (told.busy ? "忙: " : "空: ") : told.busy ? "busy: " : "free: ";
      for (const auto& [begin, end] : told.times) {
        if (&begin != &told.times[0].first) board += ", ";
        write_clock(begin, board);
        board += '-';
        write_clock(end, board);
      }
      board += '\n';
    }
    if (person.rule == Rule::kNone) continue;
    tell(board, kRuleTexts[static_cast<size_t>(person.rule)][column], std::array{name});
    board += column == 1 ? "。\n" : ".\n";
  }
  board.pop_back();
  return prompt_of(column == 1 ? chinese() : english(), board, which);
}

}  // namespace longhaul::puzzles::time_sequence
