#include "puzzles/boolean_expressions/facts.h"

#include <array>

namespace longhaul::puzzles::boolean_expressions {
namespace {

struct Pair {
  Word subject, value;
};

constexpr Pair kCapitals[] = {{{"France", "法国"}, {"Paris", "巴黎"}},
                              {{"Japan", "日本"}, {"Tokyo", "东京"}},
                              {{"Germany", "德国"}, {"Berlin", "柏林"}},
                              {{"Italy", "意大利"}, {"Rome", "罗马"}},
                              {{"Spain", "西班牙"}, {"Madrid", "马德里"}},
                              {{"Portugal", "葡萄牙"}, {"Lisbon", "里斯本"}},
                              {{"Greece", "希腊"}, {"Athens", "雅典"}},
                              {{"Egypt", "埃及"}, {"Cairo", "开罗"}},
                              {{"Canada", "加拿大"}, {"Ottawa", "渥太华"}},
                              {{"Australia", "澳大利亚"}, {"Canberra", "堪培拉"}},
                              {{"Brazil", "巴西"}, {"Brasília", "巴西利亚"}},
                              {{"Argentina", "阿根廷"}, {"Buenos Aires", "布宜诺斯艾利斯"}},
                              {{"Peru", "秘鲁"}, {"Lima", "利马"}},
                              {{"Mexico", "墨西哥"}, {"Mexico City", "墨西哥城"}},
                              {{"Cuba", "古巴"}, {"Havana", "哈瓦那"}},
                              {{"Kenya", "肯尼亚"}, {"Nairobi", "内罗毕"}},
                              {{"Ethiopia", "埃塞俄比亚"}, {"Addis Ababa", "亚的斯亚贝巴"}},
                              {{"Thailand", "泰国"}, {"Bangkok", "曼谷"}},
                              {{"Vietnam", "越南"}, {"Hanoi", "河内"}},
                              {{"India", "印度"}, {"New Delhi", "新德里"}},
                              {{"Nepal", "尼泊尔"}, {"Kathmandu", "加德满都"}},
                              {{"Pakistan", "巴基斯坦"}, {"Islamabad", "伊斯兰堡"}},
                              {{"Iran", "伊朗"}, {"Tehran", "德黑兰"}},
                              {{"Iraq", "伊拉克"}, {"Baghdad", "巴格达"}},
                              {{"Turkey", "土耳其"}, {"Ankara", "安卡拉"}},
                              {{"Russia", "俄罗斯"}, {"Moscow", "莫斯科"}},
                              {{"Poland", "波兰"}, {"Warsaw", "华沙"}},
                              {{"Hungary", "匈牙利"}, {"Budapest", "布达佩斯"}},
                              {{"Austria", "奥地利"}, {"Vienna", "维也纳"}},
                              {{"Sweden", "瑞典"}, {"Stockholm", "斯德哥尔摩"}},
                              {{"Norway", "挪威"}, {"Oslo", "奥斯陆"}},
                              {{"Finland", "芬兰"}, {"Helsinki", "赫尔辛基"}},
                              {{"Denmark", "丹麦"}, {"Copenhagen", "哥本哈根"}},
                              {{"Ireland", "爱尔兰"}, {"Dublin", "都柏林"}},
                              {{"Belgium", "比利时"}, {"Brussels", "布鲁塞尔"}},
                              {{"Romania", "罗马尼亚"}, {"Bucharest", "布加勒斯特"}},
                              {{"Bulgaria", "保加利亚"}, {"Sofia", "索非亚"}},
                              {{"Serbia", "塞尔维亚"}, {"Belgrade", "贝尔格莱德"}},
                              {{"Croatia", "克罗地亚"}, {"Zagreb", "萨格勒布"}},
                              {{"Slovakia", "斯洛伐克"}, {"Bratislava", "布拉迪斯拉发"}},
                              {{"Slovenia", "斯洛文尼亚"}, {"Ljubljana", "卢布尔雅那"}},
                              {{"Estonia", "爱沙尼亚"}, {"Tallinn", "塔林"}},
                              {{"Latvia", "拉脱维亚"}, {"Riga", "里加"}},
                              {{"Lithuania", "立陶宛"}, {"Vilnius", "维尔纽斯"}},
                              {{"Iceland", "冰岛"}, {"Reykjavik", "雷克雅未克"}},
                              {{"China", "中国"}, {"Beijing", "北京"}},
                              {{"South Korea", "韩国"}, {"Seoul", "首尔"}},
                              {{"Mongolia", "蒙古国"}, {"Ulaanbaatar", "乌兰巴托"}},
                              {{"the Philippines", "菲律宾"}, {"Manila", "马尼拉"}},
                              {{"New Zealand", "新西兰"}, {"Wellington", "惠灵顿"}},
                              {{"Colombia", "哥伦比亚"}, {"Bogotá", "波哥大"}},
                              {{"Ecuador", "厄瓜多尔"}, {"Quito", "基多"}},
                              {{"Uruguay", "乌拉圭"}, {"Montevideo", "蒙得维的亚"}},
                              {{"Paraguay", "巴拉圭"}, {"Asunción", "亚松森"}},
                              {{"Venezuela", "委内瑞拉"}, {"Caracas", "加拉加斯"}},
                              {{"Morocco", "摩洛哥"}, {"Rabat", "拉巴特"}},
                              {{"Algeria", "阿尔及利亚"}, {"Algiers", "阿尔及尔"}},
                              {{"Tunisia", "突尼斯"}, {"Tunis", "突尼斯市"}},
                              {{"Ghana", "加纳"}, {"Accra", "阿克拉"}},
                              {{"Senegal", "塞内加尔"}, {"Dakar", "达喀尔"}},
                              {{"Uganda", "乌干达"}, {"Kampala", "坎帕拉"}},
                              {{"Jordan", "约旦"}, {"Amman", "安曼"}},
                              {{"Lebanon", "黎巴嫩"}, {"Beirut", "贝鲁特"}},
                              {{"Qatar", "卡塔尔"}, {"Doha", "多哈"}}};

// Countries on one continent alone.
constexpr Pair kContinents[] = {{{"Kenya", "肯尼亚"}, {"Africa", "非洲"}},
                                {{"Ghana", "加纳"}, {"Africa", "非洲"}},
                                {{"Nigeria", "尼日利亚"}, {"Africa", "非洲"}},
                                {{"Ethiopia", "埃塞俄比亚"}, {"Africa", "非洲"}},
                                {{"Uganda", "乌干达"}, {"Africa", "非洲"}},
                                {{"Zambia", "赞比亚"}, {"Africa", "非洲"}},
                                {{"Angola", "安哥拉"}, {"Africa", "非洲"}},
                                {{"Senegal", "塞内加尔"}, {"Africa", "非洲"}},
                                {{"Algeria", "阿尔及利亚"}, {"Africa", "非洲"}},
                                {{"Tunisia", "突尼斯"}, {"Africa", "非洲"}},
                                {{"Morocco", "摩洛哥"}, {"Africa", "非洲"}},
                                {{"Libya", "利比亚"}, {"Africa", "非洲"}},
                                {{"Rwanda", "卢旺达"}, {"Africa", "非洲"}},
                                {{"Namibia", "纳米比亚"}, {"Africa", "非洲"}},
                                {{"Botswana", "博茨瓦纳"}, {"Africa", "非洲"}},
                                {{"Mali", "马里"}, {"Africa", "非洲"}},
                                {{"China", "中国"}, {"Asia", "亚洲"}},
                                {{"Japan", "日本"}, {"Asia", "亚洲"}},
                                {{"India", "印度"}, {"Asia", "亚洲"}},
                                {{"Nepal", "尼泊尔"}, {"Asia", "亚洲"}},
                                {{"Thailand", "泰国"}, {"Asia", "亚洲"}},
                                {{"Vietnam", "越南"}, {"Asia", "亚洲"}},
                                {{"Laos", "老挝"}, {"Asia", "亚洲"}},
                                {{"Cambodia", "柬埔寨"}, {"Asia", "亚洲"}},
                                {{"Mongolia", "蒙古国"}, {"Asia", "亚洲"}},
                                {{"South Korea", "韩国"}, {"Asia", "亚洲"}},
                                {{"Pakistan", "巴基斯坦"}, {"Asia", "亚洲"}},
                                {{"Iraq", "伊拉克"}, {"Asia", "亚洲"}},
                                {{"Iran", "伊朗"}, {"Asia", "亚洲"}},
                                {{"Qatar", "卡塔尔"}, {"Asia", "亚洲"}},
                                {{"Bangladesh", "孟加拉国"}, {"Asia", "亚洲"}},
                                {{"Malaysia", "马来西亚"}, {"Asia", "亚洲"}},
                                {{"Poland", "波兰"}, {"Europe", "欧洲"}},
                                {{"Germany", "德国"}, {"Europe", "欧洲"}},
                                {{"Austria", "奥地利"}, {"Europe", "欧洲"}},
                                {{"Hungary", "匈牙利"}, {"Europe", "欧洲"}},
                                {{"Romania", "罗马尼亚"}, {"Europe", "欧洲"}},
                                {{"Bulgaria", "保加利亚"}, {"Europe", "欧洲"}},
                                {{"Finland", "芬兰"}, {"Europe", "欧洲"}},
                                {{"Sweden", "瑞典"}, {"Europe", "欧洲"}},
                                {{"Ireland", "爱尔兰"}, {"Europe", "欧洲"}},
                                {{"Belgium", "比利时"}, {"Europe", "欧洲"}},
                                {{"Switzerland", "瑞士"}, {"Europe", "欧洲"}},
                                {{"Slovakia", "斯洛伐克"}, {"Europe", "欧洲"}},
                                {{"Estonia", "爱沙尼亚"}, {"Europe", "欧洲"}},
                                {{"Latvia", "拉脱维亚"}, {"Europe", "欧洲"}},
                                {{"Brazil", "巴西"}, {"South America", "南美洲"}},
                                {{"Argentina", "阿根廷"}, {"South America", "南美洲"}},
                                {{"Peru", "秘鲁"}, {"South America", "南美洲"}},
                                {{"Bolivia", "玻利维亚"}, {"South America", "南美洲"}},
                                {{"Paraguay", "巴拉圭"}, {"South America", "南美洲"}},
                                {{"Uruguay", "乌拉圭"}, {"South America", "南美洲"}},
                                {{"Ecuador", "厄瓜多尔"}, {"South America", "南美洲"}},
                                {{"Venezuela", "委内瑞拉"}, {"South America", "南美洲"}},
                                {{"Canada", "加拿大"}, {"North America", "北美洲"}},
                                {{"Mexico", "墨西哥"}, {"North America", "北美洲"}},
                                {{"Cuba", "古巴"}, {"North America", "北美洲"}},
                                {{"Guatemala", "危地马拉"}, {"North America", "北美洲"}},
                                {{"Honduras", "洪都拉斯"}, {"North America", "北美洲"}},
                                {{"Jamaica", "牙买加"}, {"North America", "北美洲"}}};

constexpr Pair kSymbols[] = {{{"hydrogen", "氢"}, {"H", "H"}},    {{"helium", "氦"}, {"He", "He"}},
                             {{"lithium", "锂"}, {"Li", "Li"}},   {{"carbon", "碳"}, {"C", "C"}},
                             {{"nitrogen", "氮"}, {"N", "N"}},    {{"oxygen", "氧"}, {"O", "O"}},
                             {{"fluorine", "氟"}, {"F", "F"}},    {{"neon", "氖"}, {"Ne", "Ne"}},
                             {{"sodium", "钠"}, {"Na", "Na"}},    {{"magnesium", "镁"}, {"Mg", "Mg"}},
                             {{"aluminium", "铝"}, {"Al", "Al"}}, {{"silicon", "硅"}, {"Si", "Si"}},
                             {{"phosphorus", "磷"}, {"P", "P"}},  {{"sulfur", "硫"}, {"S", "S"}},
                             {{"chlorine", "氯"}, {"Cl", "Cl"}},  {{"argon", "氩"}, {"Ar", "Ar"}},
                             {{"potassium", "钾"}, {"K", "K"}},   {{"calcium", "钙"}, {"Ca", "Ca"}},
                             {{"titanium", "钛"}, {"Ti", "Ti"}},  {{"chromium", "铬"}, {"Cr", "Cr"}},
                             {{"manganese", "锰"}, {"Mn", "Mn"}}, {{"iron", "铁"}, {"Fe", "Fe"}},
                             {{"cobalt", "钴"}, {"Co", "Co"}},    {{"nickel", "镍"}, {"Ni", "Ni"}},
                             {{"copper", "铜"}, {"Cu", "Cu"}},    {{"zinc", "锌"}, {"Zn", "Zn"}},
                             {{"arsenic", "砷"}, {"As", "As"}},   {{"bromine", "溴"}, {"Br", "Br"}},
                             {{"krypton", "氪"}, {"Kr", "Kr"}},   {{"silver", "银"}, {"Ag", "Ag"}},
                             {{"tin", "锡"}, {"Sn", "Sn"}},       {{"iodine", "碘"}, {"I", "I"}},
                             {{"xenon", "氙"}, {"Xe", "Xe"}},     {{"barium", "钡"}, {"Ba", "Ba"}},
                             {{"tungsten", "钨"}, {"W", "W"}},    {{"platinum", "铂"}, {"Pt", "Pt"}},
                             {{"gold", "金"}, {"Au", "Au"}},      {{"mercury", "汞"}, {"Hg", "Hg"}},
                             {{"lead", "铅"}, {"Pb", "Pb"}},      {{"uranium", "铀"}, {"U", "U"}}};

constexpr Pair kAnimals[] = {{{"whale", "鲸"}, {"mammal", "哺乳动物"}},
                             {{"dolphin", "海豚"}, {"mammal", "哺乳动物"}},
                             {{"bat", "蝙蝠"}, {"mammal", "哺乳动物"}},
                             {{"elephant", "大象"}, {"mammal", "哺乳动物"}},
                             {{"tiger", "老虎"}, {"mammal", "哺乳动物"}},
                             {{"horse", "马"}, {"mammal", "哺乳动物"}},
                             {{"rabbit", "兔子"}, {"mammal", "哺乳动物"}},
                             {{"wolf", "狼"}, {"mammal", "哺乳动物"}},
                             {{"kangaroo", "袋鼠"}, {"mammal", "哺乳动物"}},
                             {{"squirrel", "松鼠"}, {"mammal", "哺乳动物"}},
                             {{"eagle", "鹰"}, {"bird", "鸟类"}},
                             {{"penguin", "企鹅"}, {"bird", "鸟类"}},
                             {{"ostrich", "鸵鸟"}, {"bird", "鸟类"}},
                             {{"owl", "猫头鹰"}, {"bird", "鸟类"}},
                             {{"sparrow", "麻雀"}, {"bird", "鸟类"}},
                             {{"swan", "天鹅"}, {"bird", "鸟类"}},
                             {{"parrot", "鹦鹉"}, {"bird", "鸟类"}},
                             {{"pigeon", "鸽子"}, {"bird", "鸟类"}},
                             {{"salmon", "鲑鱼"}, {"fish", "鱼类"}},
                             {{"trout", "鳟鱼"}, {"fish", "鱼类"}},
                             {{"tuna", "金枪鱼"}, {"fish", "鱼类"}},
                             {{"carp", "鲤鱼"}, {"fish", "鱼类"}},
                             {{"shark", "鲨鱼"}, {"fish", "鱼类"}},
                             {{"seahorse", "海马"}, {"fish", "鱼类"}},
                             {{"snake", "蛇"}, {"reptile", "爬行动物"}},
                             {{"lizard", "蜥蜴"}, {"reptile", "爬行动物"}},
                             {{"crocodile", "鳄鱼"}, {"reptile", "爬行动物"}},
                             {{"turtle", "龟"}, {"reptile", "爬行动物"}},
                             {{"frog", "青蛙"}, {"amphibian", "两栖动物"}},
                             {{"toad", "蟾蜍"}, {"amphibian", "两栖动物"}},
                             {{"newt", "蝾螈"}, {"amphibian", "两栖动物"}},
                             {{"ant", "蚂蚁"}, {"insect", "昆虫"}},
                             {{"bee", "蜜蜂"}, {"insect", "昆虫"}},
                             {{"butterfly", "蝴蝶"}, {"insect", "昆虫"}},
                             {{"beetle", "甲虫"}, {"insect", "昆虫"}},
                             {{"mosquito", "蚊子"}, {"insect", "昆虫"}},
                             {{"dragonfly", "蜻蜓"}, {"insect", "昆虫"}},
                             {{"grasshopper", "蚱蜢"}, {"insect", "昆虫"}}};

struct Relation {
  std::span<const Pair> pairs;
  std::string_view english, chinese;  // {0}: the subject, {1}: the value
};
constexpr Relation kRelations[] = {
    {kCapitals, "{1} is the capital of {0}", "{0}的首都是{1}"},
    {kContinents, "{0} is a country in {1}", "{0}是{1}的国家"},
    {kSymbols, "the chemical symbol of {0} is {1}", "{0}的化学符号是{1}"},
    {kAnimals, "every {0} is {1}", "{0}是{1}"},
};

std::string_view in(const Word& word, Language language) {
  return language == Language::kChinese ? word.chinese : word.english;
}

}  // namespace

std::span<const int64_t> fact_counts() {
  static constexpr std::array<int64_t, 4> kCounts = {std::size(kCapitals), std::size(kContinents),
                                                     std::size(kSymbols), std::size(kAnimals)};
  return kCounts;
}

bool is_true(const Fact& fact) {
  const std::span<const Pair> pairs = kRelations[fact.relation].pairs;
  return pairs[static_cast<size_t>(fact.subject)].value.english ==
         pairs[static_cast<size_t>(fact.value)].value.english;
}

std::string sentence_of(const Fact& fact, Language language) {
  const Relation& relation = kRelations[fact.relation];
  const Pair &subject = relation.pairs[static_cast<size_t>(fact.subject)],
             &value = relation.pairs[static_cast<size_t>(fact.value)];
  const bool chinese = language == Language::kChinese;
  const std::string kind =
      relation.pairs.data() == kAnimals && !chinese ? with_article(value.value.english) : std::string();
  std::string text;
  tell(text, chinese ? relation.chinese : relation.english,
       std::array{in(subject.subject, language), kind.empty() ? in(value.value, language) : kind});
  return text;
}

}  // namespace longhaul::puzzles::boolean_expressions
