#!/bin/bash
# userd.sh: run a command inside a real `systemd --user` of its own, and leave nothing behind.
#
#   packaging/test/userd.sh [options] [--] COMMAND [ARG...]
#
#   -t SECS     limit for COMMAND (default 300; exit 124 when it is exceeded)
#   -c SRC      copy SRC (file or directory) into the command's $HOME first (repeatable)
#   -e NAME     pass the environment variable NAME through (repeatable)
#   -o DIR      bind DIR writable at $HOME/out (artefacts survive; as root they belong to uid -u)
#   -l FILE     keep the manager's own log in FILE (default: shown only on failure)
#   -j          start a journald as well, so that journalctl --user works (as root only)
#   -u UID      uid of the command (as root only; default 59999, called "userd")
#   -n          print "root", "nested" or "none: why", the mode that would be used, and exit
#
# Exit: COMMAND's own status; 124 time-out; 77 no user manager can be had here; 70 it did not come up.
# COMMAND sees an empty HOME, XDG_RUNTIME_DIR, USER, PATH, LANG=C.UTF-8 and USERD_MODE, and nothing else.
#
# root mode    for containers and CI, whatever PID 1 is. The command gets mount, pid, cgroup, ipc and uts namespaces:
#              a tmpfs on /run (with /run/systemd/system, so that systemd believes in itself) and on /home, cgroup2 on
#              /sys/fs/cgroup, and a bind-mounted copy of passwd and group with one more user. The machine's own files
#              are not touched, and the end of the pid namespace kills whatever was started.
# nested mode  for a developer on a systemd desktop: a second manager with its own HOME and XDG_RUNTIME_DIR inside a
#              delegated transient service of the first one, whose units and ports are not touched. Ports are shared.
#
# Needs systemd, util-linux, coreutils and bash; nested mode a session bus as well (Debian: dbus-user-session).
# As root the command runs as another user: what it reads must be readable for all, or come in with -c.
# Without -j there is no journal, and what units say goes to /dev/null unless they say otherwise.
set -u
die() { echo "userd: $1" >&2; exit "${2:-70}"; }

LIMIT=300 COPY=() PASS=() OUT='' LOG='' JOURNAL=0 TUID=59999 ASK=0
while getopts 't:c:e:o:l:ju:n' o; do
  case $o in
    t) LIMIT=$OPTARG ;; c) COPY+=("$(realpath -- "$OPTARG")") || exit 70 ;; e) PASS+=("$OPTARG") ;;
    o) OUT=$(realpath -- "$OPTARG") ;; l) LOG=$(realpath -m -- "$OPTARG") ;; j) JOURNAL=1 ;;
    u) TUID=$OPTARG ;; n) ASK=1 ;; *) exit 64 ;;
  esac
done
shift $((OPTIND - 1))

MANAGER=''
for m in /usr/lib/systemd/systemd /lib/systemd/systemd; do [[ -x $m ]] && { MANAGER=$m; break; }; done

mode() { # prints root | nested | none: why
  [[ -n $MANAGER ]] || { echo 'none: systemd is not installed'; return; }
  if [[ $(id -u) == 0 ]]; then
    if unshare --mount --pid --fork --cgroup --mount-proc --kill-child \
         bash -c 'mount -t tmpfs tmpfs /run && mount -t cgroup2 cgroup2 /run' 2>/dev/null
    then echo root; else echo 'none: uid 0 but without CAP_SYS_ADMIN or cgroup2 (privileged container needed)'; fi
  elif [[ -n ${XDG_RUNTIME_DIR:-} && -S $XDG_RUNTIME_DIR/systemd/private ]]; then echo nested
  else echo 'none: neither root nor a running user manager'; fi
}

# start_and_run COMMAND...: the manager, then the command, then the end of the manager. DROP is what drops privileges;
# HOME and the rest are set up already.
start_and_run() {
  local drop=("${DROP[@]}") rc i st MTARGET=console; ((JOURNAL)) && MTARGET=journal
  local env=(env -i "HOME=$UHOME" "USER=$UNAME" "LOGNAME=$UNAME" SHELL=/bin/sh LANG=C.UTF-8
             "XDG_RUNTIME_DIR=$UXDG" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
  "${drop[@]}" "${env[@]}" "$MANAGER" --user --log-target="$MTARGET" --log-level=info \
     </dev/null >"$MLOG" 2>&1 &
  local mpid=$!
  for ((i = 0; i < 150; i++)); do
    st=$("${drop[@]}" "${env[@]}" systemctl --user is-system-running 2>/dev/null)
    [[ $st == running || $st == degraded ]] && break
    kill -0 $mpid 2>/dev/null || { cat "$MLOG" >&2; die 'the user manager ended at once' 70; }
    sleep 0.1
  done
  [[ $st == running || $st == degraded ]] || { cat "$MLOG" >&2; die "manager state '$st' after 15 s" 70; }
  local more=("USERD_MODE=$UMODE") v
  for v in ${PASS[@]+"${PASS[@]}"}; do [[ -v $v ]] && more+=("$v=${!v}"); done
  [[ -S $UXDG/bus ]] && more+=("DBUS_SESSION_BUS_ADDRESS=unix:path=$UXDG/bus")
  "${drop[@]}" "${env[@]}" "${more[@]}" timeout -k 5 "$LIMIT" "$@" 0<&9 9<&-
  rc=$?
  # ask it to stop its units in order; the caller's namespace or service kills what is left
  kill -s RTMIN+24 $mpid 2>/dev/null
  for ((i = 0; i < 100; i++)); do kill -0 $mpid 2>/dev/null || break; sleep 0.1; done
  return $rc
}

# ---- last stage, root mode: we are pid 1 of a pid namespace, at the root of a cgroup namespace
if [[ ${USERD_STAGE:-} == inner ]]; then
  unset USERD_STAGE
  T=$USERD_T UNAME=userd UHOME=/home/userd UXDG=/run/user/$TUID UMODE=root MLOG=$T/manager.log
  mount --make-rprivate / || die 'cannot make mounts private' 77
  exec 8<"$T"                                            # $T may lie below a directory we are going to hide
  cp /etc/passwd "$T/passwd"; cp /etc/group "$T/group"
  echo "$UNAME:x:$TUID:$TUID::$UHOME:/bin/sh" >>"$T/passwd"; echo "$UNAME:x:$TUID:" >>"$T/group"
  mount --bind "$T/passwd" /etc/passwd && mount --bind "$T/group" /etc/group || die 'bind mount' 77
  mkdir "$T/home"
  for s in ${COPY[@]+"${COPY[@]}"}; do cp -aL -- "$s" "$T/home/" || die "cannot copy $s"; done
  # a boot id of our own: names the systemd-private-* directories (PrivateTmp=) that finish() must remove
  mount --bind "$T/boot_id" /proc/sys/kernel/random/boot_id || die 'bind boot_id' 77
  mount -t cgroup2 cgroup2 /sys/fs/cgroup || die 'cannot mount cgroup2' 77
  if [[ -n $OUT ]]; then mkdir -p "$T/out"; mount --bind "$OUT" "$T/out" || die "bind $OUT"; fi
  mount -t tmpfs -o mode=755 tmpfs /home && mkdir -m 755 "$UHOME" || die 'tmpfs on /home' 77
  cp -a /proc/self/fd/8/home/. "$UHOME/"; chmod 755 "$UHOME"
  chown -R "$TUID:$TUID" "$UHOME"
  if [[ -n $OUT ]]; then mkdir "$UHOME/out"; mount --move "$T/out" "$UHOME/out"; chown "$TUID:$TUID" "$UHOME/out"; fi
  mount -t tmpfs -o mode=755 tmpfs /run || die 'tmpfs on /run' 77
  mkdir -p /run/systemd/system /run/lock "$UXDG"
  mkdir -m 700 /run/systemd/unit-root        # PID 1 has made it on a real system; mount sandboxes of user units need it
  # a small tmpfs as logind makes it, owned by the user, 0700
  mount -t tmpfs -o "mode=700,uid=$TUID,gid=$TUID,size=64m,nosuid,nodev" tmpfs "$UXDG" || die "$UXDG" 77
  CG=/sys/fs/cgroup
  if ((JOURNAL)); then
    mkdir -p $CG/system.slice/systemd-journald.service
    mount -t tmpfs -o mode=755 tmpfs /var/log || die 'tmpfs on /var/log' 77   # persistent = per-user journals
    [[ -s /etc/machine-id ]] || { echo 0123456789abcdef0123456789abcdef >/run/mid; mount --bind /run/mid /etc/machine-id; }
    mkdir -p "/var/log/journal/$(cat /etc/machine-id)"
    mkdir -p /run/systemd/journal; : >/run/systemd/journal/flushed         # go to /var/log/journal at once
    J=${MANAGER%/*}/systemd-journald; [[ -x $J ]] || die 'no systemd-journald' 77
    bash -c "echo \$\$ >$CG/system.slice/systemd-journald.service/cgroup.procs; exec $J" </dev/null >"$T/journald.log" 2>&1 &
    for ((i = 0; i < 50; i++)); do [[ -S /run/systemd/journal/stdout ]] && break; sleep 0.1; done
  fi
  # the cgroup path of a real login, so journald finds _SYSTEMD_USER_UNIT and the manager may delegate
  D=$CG/user.slice/user-$TUID.slice/user@$TUID.service
  mkdir -p "$D/init.scope" && chown "$TUID:$TUID" "$D" "$D"/{cgroup.procs,cgroup.subtree_control,cgroup.threads} \
    "$D/init.scope" "$D/init.scope/cgroup.procs" || die 'cannot make cgroups' 77
  for c in $(cat $CG/cgroup.controllers); do             # cpu, memory, pids where the kernel gives them to v2
    for d in $CG $CG/user.slice "$CG/user.slice/user-$TUID.slice" ; do echo "+$c" >"$d/cgroup.subtree_control"; done
  done 2>/dev/null
  echo $$ >"$D/init.scope/cgroup.procs" || die 'cannot enter the cgroup' 77
  su_cwd() { setpriv --reuid "$TUID" --regid "$TUID" --clear-groups --inh-caps=-all test -x "$PWD" -a -r "$PWD"; }
  su_cwd || cd "$UHOME" || exit 70
  DROP=(setpriv --reuid "$TUID" --regid "$TUID" --clear-groups --inh-caps=-all)
  start_and_run "$@"; exit
fi

# ---- last stage, nested mode: we are the main process of a delegated transient service
if [[ ${USERD_STAGE:-} == nested ]]; then
  unset USERD_STAGE
  T=$USERD_T UNAME=$(id -un) UHOME=$T/home UXDG=$T/run UMODE=nested MLOG=$T/manager.log DROP=()
  start_and_run "$@"; exit
fi

if [[ $(id -u) == 0 && -z ${USERD_STAGE:-} ]]; then while getent passwd "$TUID" >/dev/null; do ((TUID--)); done; fi
M=$(mode)
((ASK)) && { echo "$M"; exit 0; }
(($#)) || die 'no command given' 64
[[ $M == none:* ]] && die "$M" 77

[[ -e /proc/self/fd/0 ]] || exec </dev/null          # CI may start us with stdin closed
BASE=${TMPDIR:-/tmp}
# Units with a /tmp of their own must find what lies in this HOME.
[[ $M == nested ]] && { BASE=${XDG_CACHE_HOME:-$HOME/.cache}; mkdir -p "$BASE"; }
T=$(mktemp -d "$BASE/userd.$$.XXXXXX") || exit 70
export USERD_T=$T
self=$(realpath -- "$0")
args=(-t "$LIMIT" -u "$TUID"); ((JOURNAL)) && args+=(-j); [[ -n $OUT ]] && args+=(-o "$OUT")
for v in ${PASS[@]+"${PASS[@]}"}; do args+=(-e "$v"); done
for v in ${COPY[@]+"${COPY[@]}"}; do args+=(-c "$v"); done
HARD=$((LIMIT + 45)) # everything, start and stop included

finish() {
  trap - EXIT; trap '' INT TERM HUP; exec 2>/dev/null
  [[ -n ${KID:-} ]] && kill -KILL "$KID" && wait "$KID"   # unshare --kill-child: the pid namespace dies with it
  [[ -n ${WATCH:-} ]] && kill -KILL "$WATCH" && wait "$WATCH"
  [[ -n ${SVC:-} ]] && systemctl --user kill -s KILL "$SVC" 2>/dev/null
  if [[ -n ${CGD:-} ]]; then
    for ((i = 0; i < 50; i++)); do
      find "$CGD" -depth -type d -exec rmdir {} + 2>/dev/null; [[ -d $CGD ]] || break
      [[ -w $CGD/cgroup.kill ]] && echo 1 >"$CGD/cgroup.kill"; sleep 0.1
    done
    umount -l "$CGM" 2>/dev/null; rmdir "$CGM" 2>/dev/null
  fi
  [[ -n ${BOOT:-} ]] && rm -rf {/tmp,/var/tmp}/systemd-private-"${BOOT//-/}"-*
  [[ -n $LOG ]] && cp "$T/manager.log" "$LOG" 2>/dev/null
  rm -rf --one-file-system "$T"
}

if [[ $M == root ]]; then
  if [[ ${USERD_STAGE:-} != outer ]]; then   # own mount namespace for the cgroup2 mount that cleanup needs
    rm -rf "$T"
    USERD_STAGE=outer exec unshare --mount --propagation private "$self" "${args[@]}" ${LOG:+-l "$LOG"} -- "$@"
  fi
  CGM=$T/cg CGD=$T/cg/userd-$$; mkdir "$CGM"; chmod 755 "$T"
  BOOT=$(cat /proc/sys/kernel/random/uuid); echo "$BOOT" >"$T/boot_id"; chmod 444 "$T/boot_id"
  trap finish EXIT; trap 'exit 130' INT; trap 'exit 143' TERM HUP
  mount -t cgroup2 cgroup2 "$CGM" && mkdir "$CGD" || die 'cannot make a cgroup' 77
  exec 9<&0
  for d in "$CGM"/userd-* "${TMPDIR:-/tmp}"/userd.*; do   # left by a run that was killed with SIGKILL
    p=${d##*/userd[-.]}; p=${p%%.*}
    [[ -d $d && $p =~ ^[0-9]+$ && ! -d /proc/$p ]] || continue
    if [[ $d == "$CGM"/* ]]; then find "$d" -depth -type d -exec rmdir {} + ; else rm -rf --one-file-system "$d"; fi
  done 2>/dev/null
  # the child moves itself first, so that the cgroup namespace's root is $CGD
  USERD_STAGE=inner setpriv --pdeathsig KILL bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$CGD" \
    unshare --pid --fork --kill-child=KILL --mount --mount-proc --cgroup --ipc --uts \
    "$self" "${args[@]}" -- "$@" &
  KID=$!
  setpriv --pdeathsig KILL sleep "$HARD" </dev/null >/dev/null 2>&1 &
  WATCH=$!
  wait -n -p ended "$KID" "$WATCH"; rc=$?
  if [[ $ended == "$WATCH" ]]; then WATCH=''; rc=124; else KID=''; fi
  exit $rc
else
  mkdir -m 700 "$T/home" "$T/run"
  for s in ${COPY[@]+"${COPY[@]}"}; do cp -aL -- "$s" "$T/home/" || die "cannot copy $s"; done
  [[ -z $OUT ]] || ln -s "$OUT" "$T/home/out"
  SVC=userd-$$.service
  trap finish EXIT; trap 'exit 130' INT; trap 'exit 143' TERM HUP
  setenv=(--setenv=USERD_STAGE=nested --setenv=USERD_T="$T")
  for v in ${PASS[@]+"${PASS[@]}"}; do [[ -v $v ]] && setenv+=("--setenv=$v=${!v}"); done
  systemd-run --user --quiet --collect --pipe --wait --unit="$SVC" -p Delegate=yes -p KillMode=mixed \
    -p TimeoutStopSec=15 -p RuntimeMaxSec=$HARD "${setenv[@]}" --working-directory="$PWD" \
    bash -c 'exec 9<&0; exec "$@"' userd "$self" "${args[@]}" -- "$@"
  rc=$?; SVC=''
  exit $rc
fi
