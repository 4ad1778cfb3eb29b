# shellcheck shell=bash
# Functions that scripts share: arguments, failures, and a paytokend of the script's own in a fresh directory, with a SoftHSM token
# and a root made for the run. Sourced; nothing outside the directory is touched.
#
#   fail MESSAGE            ends the script with 1 and the message
#   sandbox_usage STATUS    ends the script with the comment at its head
#   sandbox_arguments PATTERN ARGUMENT…
#                           ends the script with its usage for -h, --help, and every argument that is no option of the PATTERN
#   sandbox_given OPTION ARGUMENT…
#                           succeeds if the option is among the arguments
#   sandbox_value OPTION ARGUMENT…
#                           prints the value of the option, or nothing
#   sandbox_help ARGUMENT…  succeeds if -h or --help is among the arguments
#   sandbox_build ARGUMENT… builds a release, or with --debug a debug build, unless --skip-build is among the arguments
#   sandbox_venv NAME PACKAGE…
#                           sets environment to .build/NAME with these packages of PyPI, or ends the script as skipped
#   sandbox_open PROGRAMS [DIRECTORY]
#                           makes and enters the directory, which ends with the script, as does the daemon; sets SOAK_MODULE, SoftHSM
#                           the variable SANDBOX_PROGRAMS names other programs. With DIRECTORY, a directory in it is kept, and is
#                           entered again if it has a file `complete`
#   sandbox_token [LABEL]   makes a SoftHSM token; its label is sandbox
#   sandbox_daemon          makes authority and configuration, starts the daemon, and waits until it is ready for imports
#   sandbox_apple           makes the certificate of a simulated Apple, apple.pem, and the roots of its clients, clients.pem
#   sandbox_google          makes Google's keys, and lets the configuration that follows serve Google Pay too, for one merchant
#   sandbox_portal          makes the team's key for the simulated API, AuthKey_2X9R4HXF34.p8, and the host's certificate, portal.pem
#   sandbox_run PROGRAM …   runs a program that is ended, with time to clean up, when the script is
#   sandbox_block SCRIPT NAME
#                           prints the fenced block of README.md or an article after the comment that SCRIPT runs it as NAME
#   sandbox_merchant N T ID imports a merchant of type T (ec or rsa) and identifier ID, as authority/N.key.pem and N.pem
#
# `run` runs a command, and shows it as a reader could type it if sandbox_narrates is set.

sandbox_narrates=${sandbox_narrates:-}
sandbox_directory=
sandbox_daemon_process=
sandbox_program_process=
# Process identifiers of additional programs that end with the script.
sandbox_processes=()
# The ledger's file, and additional lines for the configuration.
sandbox_ledger=ledger.sqlite
sandbox_extra=
# Not empty if the directory stays after the script.
sandbox_kept=
# The name of a file system that is mounted in the directory; empty if there is none.
sandbox_mounted=

say() {
    [ -z "$sandbox_narrates" ] || printf '\n\033[1m%s\033[0m\n' "$*"
}

run() {
    if [ -n "$sandbox_narrates" ]; then
        local shown='' word
        for word in "$@"; do
            # Quotes a word only if a shell needs that.
            if [[ $word =~ ^[A-Za-z0-9_./:=,@%+-]+$ ]]; then shown+=" $word"; else shown+=" '${word//\'/\'\\\'\'}'"; fi
        done
        printf '$%s\n' "$shown"
        "$@"
    else
        local output status=0
        output=$("$@" 2>&1) || status=$?
        [ $status = 0 ] || printf 'failed with %s: %s\n%s\n' "$status" "$*" "$output" >&2
        return $status
    fi
}

fail() {
    echo "${0##*/}: $*" >&2
    exit 1
}

sandbox_given() { [[ " ${*:2} " == *" $1 "* ]]; }
sandbox_value() {
    local option=$1 argument previous=
    shift
    for argument; do
        [ "$previous" != "$option" ] || echo "$argument"
        [[ $argument != "$option"=* ]] || echo "${argument#*=}"
        previous=$argument
    done
}

sandbox_help() { sandbox_given -h "$@" || sandbox_given --help "$@"; }

sandbox_usage() {
    [ "$1" = 0 ] || exec >&2
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit "$1"
}

sandbox_arguments() {
    local argument
    ! sandbox_help "${@:2}" || sandbox_usage 0
    for argument in "${@:2}"; do [[ $argument =~ ^--($1)$ ]] || sandbox_usage 64; done
}

# Sets the variable configuration to release or debug.
sandbox_build() {
    configuration=release
    ! sandbox_given --debug "$@" || configuration=debug
    sandbox_given --skip-build "$@" || swift build -c "$configuration"
}

sandbox_venv() {
    environment=$PWD/.build/$1
    [ ! -e "$environment/complete" ] || return 0
    rm -rf "$environment"
    if ! { python3 -m venv "$environment" &&
        "$environment/bin/pip" install --quiet --retries 1 --timeout 30 "${@:2}"; } >/dev/null 2>&1; then
        rm -rf "$environment"
        echo "${0##*/} skipped: ${*:2} cannot be installed (python3-venv, and PyPI within reach)"
        exit 0
    fi
    touch "$environment/complete"
}

sandbox_close() {
    local status=$?
    trap - EXIT INT TERM
    local process
    for process in "${sandbox_processes[@]}" "$sandbox_program_process" "$sandbox_daemon_process"; do
        if [ -n "$process" ] && kill -0 "$process" 2>/dev/null; then
            kill -TERM "$process"
            wait "$process" 2>/dev/null || true
        fi
    done
    if [ -n "$sandbox_directory" ]; then
        if [ $status != 0 ] && [ -s "$sandbox_directory/paytokend.log" ]; then
            echo "--- the daemon's last lines:" >&2
            tail -n 20 "$sandbox_directory/paytokend.log" >&2
        fi
        cd /
        # Unmounts lazily, so that the directory can be removed even if a program still has a file open there.
        [ -z "$sandbox_mounted" ] || umount --lazy "$sandbox_directory/$sandbox_mounted" || true
        [ -n "$sandbox_kept" ] || rm -rf "$sandbox_directory"
    fi
    exit $status
}

# PROGRAMS is the directory with the built programs.
sandbox_open() {
    local programs template
    programs=$(cd "${SANDBOX_PROGRAMS:-$1}" && pwd)
    template=$(cd "$(dirname "${BASH_SOURCE[0]}")/../hsm-config" && pwd)/softhsm2.conf
    trap sandbox_close EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    # The path is short, because a Unix socket's path has at most 107 bytes.
    sandbox_kept=${2:-}
    if [ -n "$sandbox_kept" ]; then
        sandbox_directory=$sandbox_kept/paytokend-sandbox
        # Without the file, the first run ended before it had made everything.
        [ -e "$sandbox_directory/complete" ] || rm -rf "$sandbox_directory"
        mkdir -p "$sandbox_directory"
        chmod 0700 "$sandbox_directory"
    else
        sandbox_directory=$(mktemp -d /tmp/paytokend.XXXXXX)
    fi
    export PATH="$programs:$PATH" SOAK_MODULE
    SOAK_MODULE=$(sandbox_module)
    cd "$sandbox_directory" || return
    export SOFTHSM2_CONF="$sandbox_directory/softhsm2.conf"
    export PAYTOKEND_SOCKET="$sandbox_directory/paytokend.sock"
    export PAYTOKEND_ADMIN_SOCKET="$sandbox_directory/admin.sock"
    [ ! -e complete ] || return 0
    mkdir -m 0700 tokens
    sed "s|^directories.tokendir = .*|directories.tokendir = $sandbox_directory/tokens|" "$template" >softhsm2.conf
    (
        umask 077
        od -An -N4 -tu4 /dev/urandom | tr -d ' \n' >pin
        od -An -N4 -tu4 /dev/urandom | tr -d ' \n' >so-pin
        # SoftHSM requires at least four digits.
        echo 0000 >>pin
        echo 0000 >>so-pin
    )
}

sandbox_module() {
    local module
    for module in /usr/lib/softhsm/libsofthsm2.so /usr/lib/*/softhsm/libsofthsm2.so /usr/lib64/pkcs11/libsofthsm2.so; do
        [ ! -e "$module" ] || { echo "$module"; return; }
    done
    echo "libsofthsm2.so does not exist; scripts/install-packages installs it" >&2
    return 1
}

sandbox_token() {
    run paytokenctl token init --module "$SOAK_MODULE" --label "${1:-sandbox}" --so-pin-file so-pin --pin-file pin
}

sandbox_apple() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=apple-pay-gateway.apple.com \
        -addext subjectAltName=DNS:apple-pay-gateway.apple.com -keyout apple.key -out apple.pem 2>/dev/null
    cat authority/root.pem authority/developer-relations.pem >clients.pem
}

sandbox_portal() {
    local host=api.appstoreconnect.apple.com
    openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out AuthKey_2X9R4HXF34.p8 2>/dev/null
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj "/CN=$host" \
        -addext "subjectAltName=DNS:$host" -keyout portal.key -out portal.pem 2>/dev/null
}

# The merchant, and the members of an access rule that serves it, are exported for the soaks' own configurations.
sandbox_google() {
    run token-forge google-authority authority
    export SANDBOX_GOOGLE_MERCHANT=BCR2DN4TEXAMPLE
    export SANDBOX_GOOGLE_RULE="wallets: [apple-pay, google-pay], google_pay: { merchants: [$SANDBOX_GOOGLE_MERCHANT] }"
    sandbox_trust='google_pay: authority/google-pay-keys.json'
    sandbox_extra+="
access:
  - { name: sandbox, user: \"$(id -u)\", roles: [decrypt, session, portal-read, audit, admin], $SANDBOX_GOOGLE_RULE }"
}

sandbox_run() {
    # A script that is killed ends its program, too.
    setpriv --pdeathsig TERM "$@" &
    sandbox_program_process=$!
    local status=0
    wait "$sandbox_program_process" || status=$?
    sandbox_program_process=
    return $status
}

sandbox_configuration() {
    cat >paytokend.yaml <<YAML
listener:
  socket: paytokend.sock
  admin_socket: admin.sock
tokens:
  - name: primary
    module: $SOAK_MODULE
    uri: "pkcs11:token=sandbox"
    pin_file: pin
    allow_extractable_secret: true
    environment: { SOFTHSM2_CONF: $sandbox_directory/softhsm2.conf }
trust:
  roots: [authority/root.pem]${sandbox_trust:+
  $sandbox_trust}
ledger:
  url: sqlite:$sandbox_ledger
log: { format: text }
$sandbox_extra
YAML
}

sandbox_daemon() {
    run token-forge authority authority
    sandbox_configuration
    [ -z "$sandbox_narrates" ] || sed 's/^/    /' paytokend.yaml
    run paytokend --config paytokend.yaml --check
    [ -z "$sandbox_narrates" ] || echo '$ paytokend --config paytokend.yaml 2>paytokend.log &'
    paytokend --config paytokend.yaml 2>paytokend.log &
    sandbox_daemon_process=$!
    local tries
    # The number of tries ends a wait that would never end. No busy machine takes that long.
    for tries in $(seq 1200); do
        if ! kill -0 "$sandbox_daemon_process" 2>/dev/null; then
            echo "the daemon ended while it started" >&2
            return 1
        fi
        # The status is 0 only when the daemon is ready, that is, when the HSM token is open and has been compared with the
        # ledger.
        ! paytokenctl status >/dev/null 2>&1 || return 0
        sleep 0.1
    done
    echo "the daemon was not ready: asked $tries times in two minutes" >&2
    return 1
}

sandbox_block() {
    # The script that sources this file sets the variable scripts.
    # shellcheck disable=SC2154
    awk -v mark="<!-- scripts/$1 runs this as $2 -->" '
        $0 == mark { found = 1; next }
        found && /^```/ { if (inside) exit; inside = 1; next }
        inside { print }' "$scripts"/../README.md "$scripts"/../Sources/*/*/Documentation.docc/*.md
}

sandbox_merchant() {
    run token-forge merchant authority --merchant-identifier "$3" --type "$2" --name "$1"
    run paytokenctl key import --private-key "authority/$1.key.pem" --certificate "authority/$1.pem"
}
