// SPDX-License-Identifier: BSD-3-Clause
#include "rma/mapping.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <string>
#include <string_view>
#include <system_error>

#include "base/fd.hpp"
#include "base/result.hpp"

namespace mh::rma {
namespace {

std::uint64_t digest(std::string_view text) {
  std::uint64_t value = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const char letter : text) {
    value = (value ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
  }
  return value;
}

// The kernel's struct procmap_query, the argument of the ioctl PROCMAP_QUERY. Declared here,
// because it is newer than the headers of many systems.
struct MappingQuery {
  static constexpr unsigned long kRequest = _IOC(_IOC_READ | _IOC_WRITE, 'f', 17, 13 * 8);
  // Flags of a query for mappings that are readable, writable, shared, and backed by a file.
  static constexpr std::uint64_t kSharedFile = 0x01 | 0x02 | 0x08 | 0x20;
  // Flag of a query: if no mapping that the other flags ask for has the address, the answer is the
  // next such mapping behind it.
  static constexpr std::uint64_t kOrNext = 0x10;

  std::uint64_t size = sizeof(MappingQuery);
  std::uint64_t wanted = 0;
  std::uint64_t from = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t flags = 0;
  std::uint64_t page_bytes = 0;
  std::uint64_t offset = 0;
  std::uint64_t inode = 0;
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  std::uint32_t name_bytes = 0;
  std::uint32_t build_id_bytes = 0;
  std::uint64_t name = 0;
  std::uint64_t build_id = 0;
};
static_assert(sizeof(MappingQuery) == 13 * sizeof(std::uint64_t));

// Returns the text of a file; empty if the file cannot be read.
std::string text_of(const Fd& file) {
  constexpr std::size_t kMore = 64U << 10U;
  std::string text;
  for (std::size_t used = 0; file.valid();) {
    text.resize(used + kMore);
    const ssize_t got = ::read(file.get(), text.data() + used, kMore);
    if (got < 0 && errno == EINTR) continue;
    used += got > 0 ? static_cast<std::size_t>(got) : 0;
    if (got > 0) continue;
    text.resize(used);
    break;
  }
  return text;
}

// Returns the path of a mapped file without " (deleted)", the kernel's mark of an unlinked file.
// Another process may have read the path before the file was unlinked, and both must find the same
// digest.
std::string_view name_in(std::string_view text) {
  constexpr std::string_view kGone = " (deleted)";
  if (text.ends_with(kGone)) text.remove_suffix(kGone.size());
  return text;
}

// Reads the fields of a line of /proc/self/maps one after the other.
class Fields {
 public:
  explicit Fields(std::string_view line) : left_(line) {}
  std::uint64_t number(int base) {
    std::uint64_t value = 0;
    const auto [end, error] =
        std::from_chars(left_.data(), left_.data() + left_.size(), value, base);
    is_good_ = is_good_ && error == std::errc();
    left_.remove_prefix(static_cast<std::size_t>(end - left_.data()));
    skip(1);
    return value;
  }
  std::string_view word(std::size_t length) {
    const std::string_view found = left_.substr(0, length);
    skip(length + 1);
    return found;
  }
  std::string_view rest() {
    skip(std::min(left_.find_first_not_of(' '), left_.size()));
    return left_;
  }
  [[nodiscard]] bool is_good() const { return is_good_; }

 private:
  void skip(std::size_t letters) { left_.remove_prefix(std::min(letters, left_.size())); }

  std::string_view left_;
  bool is_good_ = true;
};

Mapping mapping_of(const MappingQuery& query, const char* name) {
  return {.begin = query.begin,
          .end = query.end,
          .file = {.device = std::uint64_t{query.major} << 32U | query.minor,
                   .inode = query.inode,
                   .name = digest(name_in(name)),
                   .offset = query.offset,
                   .bytes = query.end - query.begin}};
}

// Parses a line of /proc/self/maps, if it is a shared mapping of a file:
//   begin-end permissions offset major:minor inode name
// Most lines are of other mappings, and a program that makes hundreds of windows reads hundreds of
// thousands of lines. The parser therefore gives up on a line early.
std::optional<Mapping> shared_file_in(std::string_view line) {
  Fields fields(line);
  Mapping one{};
  one.begin = fields.number(16);
  one.end = fields.number(16);
  const std::string_view permissions = fields.word(4);
  if (!permissions.starts_with("rw") || !permissions.ends_with('s')) return std::nullopt;
  one.file.offset = fields.number(16);
  one.file.device = fields.number(16) << 32U;
  one.file.device |= fields.number(16);
  one.file.inode = fields.number(10);
  if (!fields.is_good() || one.file.inode == 0) return std::nullopt;
  one.file.name = digest(name_in(fields.rest()));
  one.file.bytes = one.end - one.begin;
  return one;
}

Fd open_maps() { return Fd(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC)); }

// Asks the kernel (Linux 6.11 or later) for the shared file mapping at address `from`, without
// reading text. With kOrNext in `flags`, the answer may be the next such mapping. ENOENT: there is
// none. Other errors: the kernel is older.
Result<Mapping> query_mapping(const Fd& maps, std::uint64_t from, std::uint64_t flags) {
  std::array<char, PATH_MAX> name;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  MappingQuery query{.wanted = MappingQuery::kSharedFile | flags, .from = from};
  query.name_bytes = name.size();
  query.name = reinterpret_cast<std::uint64_t>(name.data());
  if (::ioctl(maps.get(), MappingQuery::kRequest, &query) != 0) return from_errno(errno);
  return mapping_of(query, name.data());
}

bool is_none(const Status& status) { return status.sys_errno == ENOENT; }

// Queries all shared mappings of files from the kernel, one by one. Returns nothing on kernels
// before Linux 6.11, which cannot be queried.
std::optional<std::vector<Mapping>> asked_for(const Fd& maps) {
  std::vector<Mapping> all;
  for (std::uint64_t from = 0;;) {
    const auto found = query_mapping(maps, from, MappingQuery::kOrNext);
    if (!found) return is_none(found.status()) ? std::optional(std::move(all)) : std::nullopt;
    all.push_back(*found);
    from = found->end;
  }
}

std::vector<Mapping> read_all(const Fd& maps) {
  std::vector<Mapping> found;
  const std::string text = text_of(maps);
  for (std::string_view left = text; !left.empty();) {
    const std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(line.size() + 1, left.size()));
    if (const auto mapping = shared_file_in(line)) found.push_back(*mapping);
  }
  return found;
}

}  // namespace

Mappings Mappings::around(std::uint64_t address) {
  const auto found = query_mapping(open_maps(), address, 0);
  if (!found) return is_none(found.status()) ? Mappings() : read();
  Mappings result;
  result.add(*found);
  return result;
}

Mappings Mappings::read(MappingSource source) {
  const Fd maps = open_maps();
  auto found = source == MappingSource::kernel ? asked_for(maps) : std::nullopt;
  if (!found) found = read_all(maps);
  Mappings result;
  result.are_all_ = true;
  for (const Mapping& mapping : *found) result.add(mapping);
  return result;
}

void Mappings::add(const Mapping& next) {
  Mapping* last = shared_.empty() ? nullptr : &shared_.back();
  const bool goes_on = last != nullptr && last->end == next.begin &&
                       last->file.device == next.file.device &&
                       last->file.inode == next.file.inode && last->file.name == next.file.name &&
                       last->file.offset + last->file.bytes == next.file.offset;
  if (!goes_on) return shared_.push_back(next);
  last->end = next.end;
  last->file.bytes += next.file.bytes;
}

std::optional<FileRange> Mappings::file_of(const void* address, std::uint64_t bytes) const {
  const auto begin = reinterpret_cast<std::uint64_t>(address);
  for (const Mapping& mapping : shared_) {
    if (begin < mapping.begin || begin >= mapping.end || bytes > mapping.end - begin) continue;
    FileRange range = mapping.file;
    range.offset += begin - mapping.begin;
    range.bytes = bytes;
    return range;
  }
  return std::nullopt;
}

std::byte* Mappings::address_of(const FileRange& range) const {
  if (range.inode == 0) return nullptr;
  for (const Mapping& mapping : shared_) {
    const FileRange& file = mapping.file;
    if (file.device != range.device || file.inode != range.inode || file.name != range.name)
      continue;
    if (range.offset < file.offset || range.offset - file.offset > file.bytes) continue;
    const std::uint64_t before = range.offset - file.offset;
    if (range.bytes > file.bytes - before) continue;
    return reinterpret_cast<std::byte*>(mapping.begin + before);
  }
  return nullptr;
}

}  // namespace mh::rma
