#include "puzzles/engine/words/words.h"

namespace longhaul::puzzles {
namespace {

constexpr Word kNames[] = {
    {"Alice", "爱丽丝"},      {"Bob", "鲍勃"},          {"Carol", "卡罗尔"},    {"David", "大卫"},
    {"Emma", "艾玛"},         {"Frank", "弗兰克"},      {"Grace", "格蕾丝"},    {"Henry", "亨利"},
    {"Irene", "艾琳"},        {"Jack", "杰克"},         {"Karen", "凯伦"},      {"Leo", "利奥"},
    {"Maria", "玛丽亚"},      {"Nathan", "内森"},       {"Olivia", "奥利维娅"}, {"Peter", "彼得"},
    {"Quinn", "奎因"},        {"Rachel", "雷切尔"},     {"Samuel", "塞缪尔"},   {"Tina", "蒂娜"},
    {"Victor", "维克多"},     {"Wendy", "温迪"},        {"Xavier", "泽维尔"},   {"Yvonne", "伊冯"},
    {"Zachary", "扎卡里"},    {"Adam", "亚当"},         {"Bella", "贝拉"},      {"Charles", "查尔斯"},
    {"Diana", "黛安娜"},      {"Edward", "爱德华"},     {"Fiona", "菲奥娜"},    {"George", "乔治"},
    {"Hannah", "汉娜"},       {"Isaac", "艾萨克"},      {"Julia", "朱莉娅"},    {"Kevin", "凯文"},
    {"Laura", "劳拉"},        {"Martin", "马丁"},       {"Nora", "诺拉"},       {"Oscar", "奥斯卡"},
    {"Paula", "保拉"},        {"Robert", "罗伯特"},     {"Sophia", "索菲亚"},   {"Thomas", "托马斯"},
    {"Ursula", "厄休拉"},     {"Vincent", "文森特"},    {"William", "威廉"},    {"Anna", "安娜"},
    {"Brian", "布莱恩"},      {"Clara", "克拉拉"},      {"Daniel", "丹尼尔"},   {"Elena", "埃琳娜"},
    {"Felix", "菲利克斯"},    {"Gloria", "格洛丽亚"},   {"Hugo", "雨果"},       {"Ingrid", "英格丽德"},
    {"James", "詹姆斯"},      {"Katherine", "凯瑟琳"},  {"Lucas", "卢卡斯"},    {"Monica", "莫妮卡"},
    {"Nicholas", "尼古拉斯"}, {"Patricia", "帕特里夏"}, {"Simon", "西蒙"},      {"Teresa", "特蕾莎"}};

constexpr Word kColours[] = {
    {"red", "红色"},       {"blue", "蓝色"},     {"green", "绿色"},       {"yellow", "黄色"},
    {"black", "黑色"},     {"white", "白色"},    {"grey", "灰色"},        {"brown", "棕色"},
    {"pink", "粉色"},      {"purple", "紫色"},   {"turquoise", "青绿色"}, {"gold", "金色"},
    {"silver", "银色"},    {"beige", "米色"},    {"crimson", "深红色"},   {"scarlet", "猩红色"},
    {"maroon", "栗色"},    {"indigo", "靛蓝色"}, {"violet", "紫罗兰色"},  {"lavender", "淡紫色"},
    {"magenta", "品红色"}, {"teal", "蓝绿色"},   {"navy", "藏青色"},      {"olive", "橄榄色"},
    {"khaki", "卡其色"},   {"ivory", "象牙色"},  {"amber", "琥珀色"},     {"bronze", "古铜色"},
    {"copper", "铜色"},    {"cream", "奶油色"},  {"charcoal", "炭灰色"},  {"cyan", "青色"}};

constexpr Word kPlaces[] = {{"park", "公园"},
                            {"museum", "博物馆"},
                            {"library", "图书馆"},
                            {"airport", "机场"},
                            {"hospital", "医院"},
                            {"school", "学校"},
                            {"theater", "剧院"},
                            {"restaurant", "餐馆"},
                            {"hotel", "酒店"},
                            {"farm", "农场"},
                            {"beach", "海滩"},
                            {"zoo", "动物园"},
                            {"aquarium", "水族馆"},
                            {"cinema", "电影院"},
                            {"gym", "健身房"},
                            {"bakery", "面包店"},
                            {"market", "市场"},
                            {"train station", "火车站"},
                            {"bank", "银行"},
                            {"post office", "邮局"},
                            {"stadium", "体育场"},
                            {"garden", "花园"},
                            {"harbor", "港口"},
                            {"castle", "城堡"},
                            {"bridge", "桥边"},
                            {"campsite", "露营地"},
                            {"vineyard", "葡萄园"},
                            {"observatory", "天文台"},
                            {"amusement park", "游乐园"},
                            {"concert hall", "音乐厅"},
                            {"swimming pool", "游泳池"},
                            {"ice rink", "溜冰场"},
                            {"bookshop", "书店"},
                            {"pharmacy", "药店"},
                            {"barbershop", "理发店"},
                            {"laundry", "洗衣店"},
                            {"fire station", "消防站"},
                            {"town hall", "市政厅"},
                            {"lighthouse", "灯塔"},
                            {"courthouse", "法院"}};

}  // namespace

std::span<const Word> names() { return kNames; }
std::span<const Word> colours() { return kColours; }
std::span<const Word> places() { return kPlaces; }

}  // namespace longhaul::puzzles
