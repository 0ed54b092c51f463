# shellcheck shell=bash disable=SC2034 # for those who source this
# An apt that touches nothing of the machine's own configuration (source it).

# Sets where this machine's own packages come from: origin, site, release, the keys that
# sign them and the parts of the archive.
find_mirror() {
	for origin in Debian Ubuntu; do
		site=$(_mirror SITE) release=$(_mirror CODENAME)
		[ -z "$site" ] || break
	done
	case $origin:$site in
	*:) echo "${0##*/}: no Debian or Ubuntu mirror is configured" >&2; return 1 ;;
	Debian:*) keys=/usr/share/keyrings/debian-archive-keyring.gpg parts=main ;;
	Ubuntu:*) keys=/usr/share/keyrings/ubuntu-archive-keyring.gpg parts='main universe' ;;
	esac
}
_mirror() { apt-get indextargets --format "\$($1)" 'Created-By: Packages' "Origin: $origin" | head -n 1; }

# private_apt DIRECTORY ARGUMENT...: apt-get with DIRECTORY/sources.list, for a machine that
# has no package installed. All that it writes, it writes below DIRECTORY.
private_apt() {
	local here=$1; shift
	mkdir -p "$here/lists/partial" "$here/cache/archives/partial"
	: > "$here/installed"
	apt-get -q -o "Dir::Etc::sourcelist=$here/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null -o APT::Default-Release= \
		-o "APT::Architectures=$(dpkg --print-architecture)" -o APT::Install-Recommends=false \
		-o "Dir::State=$here" -o "Dir::State::status=$here/installed" -o "Dir::Cache=$here/cache" \
		-o APT::Sandbox::User=root -o Debug::NoLocking=1 -o Acquire::Retries=3 "$@"
}
