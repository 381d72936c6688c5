// fmt's own code, which Debian has in a shared library only: the operators' library must load where nothing
// but LibTorch is.
#undef FMT_SHARED
#define FMT_API __attribute__((visibility("hidden")))
#include <fmt/format-inl.h>

namespace fmt::detail {
template FMT_API auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl<char>(locale_ref) -> char;
}  // namespace fmt::detail
