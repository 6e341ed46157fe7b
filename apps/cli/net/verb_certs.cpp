// equigrad certs: a test authority and its certificates.

#include "apps/cli/shell/arguments.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/shell/verb.h"

#include "apps/net/tcp/certificates.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace eg::cli {
namespace {

/// Sets `names` to the list that was given, if it was. Throws UsageError.
void take_list(const std::string& flag, const std::string& list, std::vector<std::string>& names) {
  if (list.empty()) return;
  names.clear();
  for (std::size_t from = 0; from <= list.size();) {
    const std::size_t end = std::min(list.find(',', from), list.size());
    std::string name = list.substr(from, end - from);
    if (name.empty() || name.front() == '-')
      throw UsageError(fmt::format("{}: '{}' is no list of names with commas between them", flag, list));
    if (std::find(names.begin(), names.end(), name) != names.end())
      throw UsageError(fmt::format("{}: '{}' is there twice", flag, name));
    names.push_back(std::move(name));
    from = end + 1;
  }
}

} // namespace

Job declare_certs(CLI::App& app, const CommonOptions& common) {
  struct Options {
    std::string out, hosts, edges;
    net::CertificateOptions made;
  };
  auto o = std::make_shared<Options>();
  common.files
      ->told_by_verb(
          app.add_option("--out", o->out, "Folder to write ca, cloud and the edges' files to; none is overwritten"))
      ->required()
      ->type_name("FOLDER");
  app.add_option("--host", o->hosts,
                 "Names and addresses of the cloud, with commas between them (default: localhost,127.0.0.1,::1)")
      ->type_name("LIST");
  app.add_option("--edge", o->edges, "Names of edges, with commas between them (default: edge)")->type_name("LIST");
  common.files
      ->input(app.add_option(
          "--authority", o->made.authority,
          "Folder whose ca.key signs: edges for a cloud that has its certificates (default: a new authority)"))
      ->type_name("FOLDER");
  app.add_option("--days", o->made.days, "Days that they are valid")
      ->check(whole_number(1, 36'500))
      ->capture_default_str();
  app.footer(
      "For tests and machines of one's own: who has ca.key can make a certificate for anybody, so keep it off both\n"
      "sides. Give the cloud ca.pem, cloud.pem and cloud.key, an edge ca.pem, edge.pem and edge.key.");
  return [o, &common, &app]() -> int {
    if (app.count("--seed") > 0)
      throw UsageError("--seed has no effect on certs: keys come from the system's random source");
    if (!o->made.authority.empty() && app.count("--host") > 0)
      throw UsageError("--host has no effect with --authority: only edges are made");
    take_list("--host", o->hosts, o->made.hosts);
    take_list("--edge", o->edges, o->made.edges);
    common.files->goes_on_in(o->out);
    common.files->check();
    const std::vector<std::string> files = net::make_certificates(o->out, o->made);
    const bool with_cloud = o->made.authority.empty();
    if (common.talks())
      say(fmt::format("{}: certificates for {} days: {}{}\n", o->out, o->made.days,
                      with_cloud ? fmt::format("cloud ({}), ", fmt::join(o->made.hosts, ", ")) : "",
                      fmt::join(o->made.edges, ", ")));
    const std::vector<std::string> hosts = with_cloud ? o->made.hosts : std::vector<std::string>();
    write_json(common, {{"files", files}, {"days", o->made.days}, {"hosts", hosts}, {"edges", o->made.edges}});
    return done;
  };
}

} // namespace eg::cli
