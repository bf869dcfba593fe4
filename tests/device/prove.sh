#!/bin/bash
# What does NCCL really do on this machine? One GPU is enough: NCCL takes two ranks on it for two nodes, since NCCL_HOSTID
# differs, and sends everything through its sockets.
#
#   OUT=folder tests/device/prove.sh facts|nccl|faults|devices|train|all
#
# Each stage ends within 600 s whatever hangs in it (what waits for ranks stops at 540), and leaves OUT/<stage>.tgz and OUT/<stage>.tsv (name, value, unit), which
# `python -m tests.bench.gpu OUT` prints. PYTHON names the interpreter; SIZES, SECONDS_A_TRIAL, WAIT, BURNS,
# LARGE, SIGNALS, FAULTS and MODEL make it short.
set -u
OUT=${OUT:?the folder for what is found} STAGE=${1:-all}
PYTHON=${PYTHON:-python3} SIZES=${SIZES:-[]} TRIAL=${SECONDS_A_TRIAL:-2} WAIT=${WAIT:-45} BURNS=${BURNS:-20} LARGE=${LARGE:-268435456}
HERE=$(cd "$(dirname "$0")/../.." && pwd)
export PYTHONPATH=$HERE${PYTHONPATH:+:$PYTHONPATH}
OPERATIONS='"all_reduce","broadcast","sendrecv","reduce","all_gather","reduce_scatter","all_to_all","gather","scatter"'
export MASTER_ADDR=127.0.0.1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 OMP_NUM_THREADS=1 NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-lo}

if [ "$STAGE" = all ]; then
    status=0
    for stage in facts nccl faults devices train; do "$0" $stage || status=1; done
    exit $status
fi

D=$OUT/$STAGE; mkdir -p "$D"; TABLE=$OUT/$STAGE.tsv; : >"$TABLE"
LIMIT=$((SECONDS + 540)) PIDS=()
end() { for pid in "${PIDS[@]}"; do kill -KILL "$pid" 2>/dev/null; done; tar czf "$OUT/$STAGE.tgz" -C "$OUT" "$STAGE" && rm -rf "$D"; }
trap end EXIT
row() { printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"$TABLE"; }
port() { "$PYTHON" -S -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# one NAME RANK WORLD PORT FILE SETTINGS [VARIABLE=VALUE...]: one rank in the background; its process is $LAST.
one() {
    local name=$1 rank=$2 world=$3 port=$4 file=$5 settings=$6; shift 6
    env NCCL_HOSTID="host$rank" RANK="$rank" WORLD_SIZE="$world" MASTER_PORT="$port" PREFLIGHT_SETTINGS="$settings" \
        NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH,TUNING NCCL_DEBUG_FILE="$D/$name-nccl-$rank.log" \
        TORCH_FR_DUMP_TEMP_FILE="$D/$name-trace-" TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC=500 "$@" \
        "$PYTHON" -m "preflight.job.ranks.$file" >"$D/$name-$rank.jsonl" 2>"$D/$name-$rank.err" &
    LAST=$!; PIDS+=("$LAST")
}
# ends PID SECONDS: wait for it, no longer than that; a stopped one is ended too.
ends() {
    local until=$((SECONDS + $2)); [ $until -lt $LIMIT ] || until=$LIMIT
    while kill -0 "$1" 2>/dev/null && [ $SECONDS -lt $until ]; do sleep 0.2; done
    kill -KILL "$1" 2>/dev/null; wait "$1" 2>/dev/null
}
# two NAME FILE SETTINGS [VARIABLE=VALUE...]: two ranks, waited for; the row says whether both were done.
two() {
    local name=$1 at; at=$(port)
    one "$name" 0 2 "$at" "${@:2}"; local first=$LAST
    one "$name" 1 2 "$at" "${@:2}"; local second=$LAST
    ends $first 170; ends $second 20
    [ $SECONDS -lt $LIMIT ] || row "$name" "cut short" ""
    row "$name" "$(grep -l '"record": "done"' "$D/$name"-?.jsonl | wc -l)" "ranks done"
}
failed() { grep -h '"record": "failed"' "$D/$1"-?.jsonl | head -1 | cut -c1-900; tail -qn 3 "$D/$1"-?.err | cut -c1-200; }
smi() { command -v nvidia-smi >/dev/null || return 0
    for words in "-q" "-q -x" "topo -m" "topo -p2p r" "nvlink -s" "nvlink -e"; do timeout -k 2 12 nvidia-smi $words >"$D/$1-smi${words// /_}.txt" 2>&1; done; }

case $STAGE in
facts)
    smi idle; timeout 20 lspci -vvv -d 10de: >"$D/lspci.txt" 2>&1; timeout 10 dmesg >"$D/dmesg.txt" 2>&1
    cat /proc/driver/nvidia/version >"$D/driver.txt" 2>&1
    row torch "$(timeout -k 2 60 "$PYTHON" -c 'import torch; print(torch.__version__, torch.version.cuda, torch.cuda.nccl.version(), torch.cuda.get_device_name(0))' | tail -1)" ""
    (cd "$HERE" && timeout -k 20 380 "$PYTHON" -m preflight run --hosts=local --backend=nccl --ranks-per-node=1 --report-dir="$D/run" >"$D/run.txt" 2>&1)
    row "preflight run on one GPU" $? "exit code" ;;
nccl)
    one world1 0 1 "$(port)" collectives "{\"backend\":\"nccl\",\"operations\":[$OPERATIONS],\"sizes\":$SIZES,\"cap_seconds\":$TRIAL}"; ends "$LAST" 150
    row "world of one" "$(grep -c '"record": "result"' "$D/world1-0.jsonl")" "results of 9"
    for mode in blocking pipelined; do
        two $mode collectives "{\"backend\":\"nccl\",\"operations\":[$OPERATIONS],\"sizes\":$SIZES,\"mode\":\"$mode\",\"cap_seconds\":$TRIAL}"
        row "$mode" "$(grep -c '"record": "result"' "$D/$mode-0.jsonl")" "results of 9"
        row "$mode" "$(grep -h '"record": "result"' "$D/$mode-0.jsonl" | grep -vc '"wrong": 0,')" "results with wrong elements"
    done
    two rounds collectives "{\"backend\":\"nccl\",\"sizes\":$SIZES,\"cap_seconds\":$TRIAL,\"rounds\":[[{\"name\":\"rail 0\",\"ranks\":[0,1]}]]}"
    two ring collectives "{\"backend\":\"nccl\",\"sizes\":$SIZES,\"cap_seconds\":$TRIAL,\"holds_to_ring\":true,\"device_seconds\":0.5}" ;;
faults)
    LONG="{\"backend\":\"nccl\",\"sizes\":[$LARGE],\"cap_seconds\":300,\"max_iterations\":100000,\"ci\":0,\"wait_seconds\":$WAIT}"
    for signal in ${SIGNALS-STOP KILL}; do
        at=$(port); one $signal 0 2 "$at" collectives "$LONG"; first=$LAST; one $signal 1 2 "$at" collectives "$LONG"; second=$LAST
        until=$((SECONDS + 120))
        until grep -q '"record": "progress"' "$D/$signal-0.jsonl" || [ $SECONDS -ge $until ] || ! kill -0 $first 2>/dev/null; do sleep 0.2; done
        kill -$signal $second; began=$SECONDS
        ends $first $((WAIT + 40)); row "rank 1 gets SIG$signal" $((SECONDS - began)) "s until rank 0 ends"
        kill -KILL $second 2>/dev/null
        row "rank 0 after SIG$signal" "$(failed $signal | tr '\t\n' '  ' | cut -c1-900)" ""
        row "flight recorder after SIG$signal" "$(ls "$D" | grep -c "^$signal-trace-")" "files"
    done
    SHORT="{\"backend\":\"nccl\",\"sizes\":[1048576],\"max_iterations\":8,\"wait_seconds\":$WAIT,\"join_seconds\":60}"
    FAULTS=${FAULTS-interface:NCCL_SOCKET_IFNAME=nope net:NCCL_NET=IB duplicate:NCCL_HOSTID=same ordinal:LOCAL_RANK=7}
    for fault in $FAULTS; do
        two "${fault%%:*}" collectives "$SHORT" "${fault#*:}"
        row "${fault#*:}" "$(failed "${fault%%:*}" | tr '\t\n' '  ' | cut -c1-900)" ""
    done
    row "left in ~/.cache/torch" "$(ls ~/.cache/torch 2>/dev/null | grep -c comm_lib_trace)" "files" ;;
devices)
    smi idle
    for ((burn = 0; burn < BURNS && SECONDS < LIMIT - 60; burn++)); do
        one burn$burn 0 1 0 devices '{"device":"cuda","seconds":1}'; [ $burn = 1 ] && { sleep 8; smi load; }
        ends "$LAST" 170
    done
    cat "$D"/burn*.jsonl | grep '"record": "device"' >"$D/devices.jsonl"; cp "$D/devices.jsonl" "$OUT/devices.jsonl"
    row "burn-ins with figures" "$(grep -c . "$D/devices.jsonl")" "of $BURNS" ;;
train)
    for strategy in ddp fsdp; do for precision in fp32 bf16; do
        two $strategy-$precision train "{\"backend\":\"nccl\",\"model\":\"${MODEL:-small}\",\"strategy\":\"$strategy\",\"precision\":\"$precision\",\"wait_seconds\":$WAIT}"
    done; done ;;
*) echo "stage $STAGE: wanted facts, nccl, faults, devices, train or all" >&2; exit 4 ;;
esac
cat "$TABLE"
