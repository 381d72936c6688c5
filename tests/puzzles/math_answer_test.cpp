// Answers in mathematics that are the same, and that are not. Each line was judged by hand.
#include "puzzles/grade/math_answer.h"

#include <gtest/gtest.h>

#include <string>

namespace longhaul::puzzles {
namespace {

void same(const char* a, const char* b) {
  EXPECT_TRUE(same_math_answer(a, b)) << a << " and " << b;
  EXPECT_TRUE(same_math_answer(b, a)) << b << " and " << a;
}
void other(const char* a, const char* b) {
  EXPECT_FALSE(same_math_answer(a, b)) << a << " and " << b;
  EXPECT_FALSE(same_math_answer(b, a)) << b << " and " << a;
}

TEST(MathAnswer, NumbersAreExact) {
  same("0.5", "\\frac{1}{2}");
  same("\\dfrac12", "1/2");
  same(".250", "\\tfrac{1}{4}");
  same("-\\frac{6}{4}", "-1.5");
  same("\\frac{-3}{2}", "-\\frac32");
  same("3\\frac{1}{2}", "7/2");
  same("2^{10}", "1024");
  same("2^{-2}", "0.25");
  same("025", "25");
  same("1,234,567", "1234567");
  same("1{,}234.5", "1234.5");
  same("12\\,345", "12345");
  other("0.33", "\\frac{1}{3}");
  other("3.14", "\\pi");
  other("1/0", "0");
  other("12", "21");
  other("-5", "5");
  other("1,23", "123");
}

TEST(MathAnswer, RootsAndLetters) {
  same("\\frac{\\sqrt{8}}{2}", "√2");
  same("\\frac{1}{\\sqrt{2}}", "\\frac{\\sqrt{2}}{2}");
  same("\\frac{1}{1+\\sqrt{2}}", "\\sqrt{2}-1");
  same("2\\sqrt{3}", "\\sqrt{12}");
  same("\\sqrt[3]{27}", "3");
  same("\\sqrt{\\frac{9}{4}}", "1.5");
  same("4^{1/2}", "2");
  same("\\frac{\\pi}{3}", "\\frac{1}{3}\\pi");
  same("(x+1)^2", "x^2 + 2x + 1");
  same("2(x-y)", "2x - 2y");
  same("\\frac{x^2 y}{x}", "xy");
  same("2 \\cdot 3 \\times x", "6x");
  other("\\sqrt{2}", "\\sqrt{3}");
  other("x+1", "y+1");
  other("2^x", "x^2");
  other("\\sqrt[3]{28}", "3");
}

TEST(MathAnswer, ListsSetsPairsAndIntervals) {
  same("(1, 2)", "\\left( 1, \\frac{4}{2} \\right)");
  same("[0,1)", "\\left[0, 1\\right)");
  same("(-\\infty, 3] \\cup (5, \\infty)", "(5,\\infty)\\cup(-\\infty,3]");
  same("\\{1, 2, 3\\}", "3, 2, 1");
  same("1 \\text{ and } 2", "2,1");
  same("1 \\pm \\sqrt{2}", "1-\\sqrt{2}, 1+\\sqrt{2}");
  same("\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}",
       "\\begin{pmatrix}1&2\\\\3&\\frac{8}{2}\\end{pmatrix}");
  other("(1, 2)", "(2, 1)");
  other("[0,1)", "(0,1)");
  other("1, 2", "1, 2, 3");
  other("1, 1, 2", "1, 2, 2");
  other("(1, 2)", "(1, 2, 3)");
  other("\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}", "\\begin{pmatrix} 1 & 2 \\end{pmatrix}");
}

TEST(MathAnswer, NamesUnitsAndWords) {
  same("x = 5", "5");
  same("x \\in [0, 1]", "[0,1]");
  same("f(x) = x^2", "x^2");
  same("12 \\text{ cm}^2", "12");
  same("12 square units", "12");
  same("\\$1,000", "1000");
  same("50\\%", "50");
  same("90^\\circ", "90");
  same("\\text{Monday}", "monday");
  same("\\text{(A)}", "(A)");
  same("\\text{A}", "A");
  same("$\\frac{1}{2}$.", "0.5");
  same("12 square units^2", "12");
  same("2 pi", "2\\pi");
  other("2 pi", "2");
  other("12 \\text{ cm}", "13 \\text{ cm}");
  other("\\text{Monday}", "\\text{Tuesday}");
  other("x = 5", "x = 6");
  other("", "");
}

TEST(MathAnswer, NothingIsTooOddToBeCompared) {
  for (const std::string& odd :
       {std::string(3000, '('), std::string(1900, '('), std::string("\\frac"), std::string("\\sqrt["),
        std::string("^^^"), std::string("99999999999999999999"), std::string("(((1)))^32^32^32"),
        std::string("\\text{"), std::string("x^{"), std::string("(a+b+c+d+e+f+g)^{32}"),
        std::string(400, '^') + "2", std::string("\\begin{pmatrix}\\end{pmatrix}"),
        "1 " + std::string(1900, 'a') + "!"})
    EXPECT_FALSE(same_math_answer(odd, "17")) << odd;
}

}  // namespace
}  // namespace longhaul::puzzles
