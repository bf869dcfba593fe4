"""Which secrets are known by their place: in an address, a header, a command?"""

from __future__ import annotations

import re

IN_URL = re.compile(r"(://[^\s/:@]{0,128}:)(?!\d{0,5}(?:[/?#]|$))[^\s\"']{1,256}(?=@)")
# Alone before the @: a token, unless it is a login, a mark of an image's content, or the user whose password is none.
ALONE_IN_URL = re.compile(
    r"(?<![\w+.-])((?!(?:[\w.+-]{0,16}ssh|sftp|scp|rsync|git|nfs|docker|oras|oci|file|mailto)://)[A-Za-z][\w.+-]{0,31}://)"
    r"(?!\[hidden\])[^\s/:@\"'(){}\[\]<>$]{1,256}(?=(?::(?:x-oauth-basic|x-access-token)?)?@(?!sha\d))"
)
IN_QUERY = re.compile(
    r"([?&#](?:[\w.-]{0,40}[-_.])?(?:sig|signature|key|code|auth|token|secret|password)=)[^\s&\"']+", re.IGNORECASE
)
HOOK = re.compile(
    r"(https?://(?:hooks\.slack\.com|(?:\w+\.)?discord(?:app)?\.com/api/webhooks|[\w.-]+\.webhook\.office\.com"
    r"|open\.(?:feishu\.cn|larksuite\.com)/open-apis/bot|hooks\.[\w.-]+|api\.telegram\.org|events\.pagerduty\.com|maker\.ifttt\.com|ntfy\.sh))/(?!services/\.\.\.)[^\s\"']+",
    re.IGNORECASE,
)
# How the tokens of services begin, each with as much after it as no word has.
BEGINNINGS = re.compile(
    r"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{20,}|glpat-[\w-]{16,}|hf_[A-Za-z0-9]{16,}"
    r"|xox[abeoprs]-[\w-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{12,}|AIza[\w-]{30,}|ya29\.[\w-]{16,}|sk-[\w-]{16,}|nvapi-[\w-]{16,}"
    r"|npm_[A-Za-z0-9]{20,}|pypi-[\w-]{20,}|dop_v1_[a-f0-9]{20,}|SG\.[\w-]{16,}\.[\w-]{16,}|r8_[A-Za-z0-9]{20,}"
    r"|AGE-SECRET-KEY-1[A-Z0-9]{16,}|wandb_v1_\w{16,}|(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
)
PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
COOKIE = re.compile(
    r"((?<![\w-])(?:Set-)?Cookie[\"']?\s{0,8}:\s{0,8}[\"']?)(?=[^\s=;,]{1,256}=)[^\n\"']+", re.IGNORECASE
)
HEADER = re.compile(
    r"((?:Authorization|(?<![\w-])X-[\w-]{0,64}(?:Key|Token))[\"']?\s{0,8}[:=]\s{0,8}[\"']?(?:(?:Bearer|Basic|Token)\s{1,8})?)"
    r"[^\s\"']+",
    re.IGNORECASE,
)
BEARER = re.compile(r"(\bBearer\s{1,8})(?!\[hidden\])[\w.~+/=-]{8,}", re.IGNORECASE)
# Programs whose password is an option of one letter, a word among others, or a part of one.
SHORT = re.compile(
    r"(\bsshpass\s{1,8}(?:-\w\s{1,8}){0,8}?-p\s{0,8}"
    r"|\b(?:docker|podman|nerdctl|oras|registry|auth|az|buildah|skopeo)\s{1,8}login\b[^\n;|&]{0,200}?\s-p\s{1,8}"
    r"|\bredis-cli\b[^\n;|&]{0,200}?\s-a\s{1,8}"
    r"|\b(?:ipmitool|sqlcmd|mosquitto_\w{1,8})\b[^\n;|&]{0,200}?\s-P\s{0,8}(?=[^\s-])"
    r"|\bldap\w{1,16}\b[^\n;|&]{0,200}?\s-w\s{1,8}"
    r"|\bhtpasswd\b[^\n;|&]{0,80}?\s-\w{0,4}b\w{0,4}\s{1,8}(?:\S{1,128}\s{1,8}){1,2}"
    r"|\bcurl\b[^\n;|&]{0,200}?\s(?:-b|--oauth2-bearer)\s{1,8}[\"']?"
    r"|\bcurl\b[^\n;|&]{0,200}?\s(?:-u|--user)[ =][\"']?(?=[^\s:]{8,128}:[\"']?(?:\s|\Z))"
    r"|\bcurl\b[^\n;|&]{0,200}?\s(?:-u|-U|--user|--proxy-user)[ =]?[^\s:]{1,128}:"
    r"|\b(?:mysql|mariadb)\w{0,16}\b[^\n;|&]{0,200}?\s-p"
    r"|\bsmbclient\b[^\n;|&]{0,200}?\s-U\s{0,8}[^\s%]{1,128}%"
    r"|\bwandb\s{1,8}login\s{1,8}(?:--?[\w=-]{1,64}\s{1,8}){0,8}(?!-)"
    r"|\blogin\s{1,8}\S{1,128}\s{1,8}password\s{1,8}"
    r"|\baws\s{1,8}configure\s{1,8}set\s{1,8}[\w.-]{0,64}(?:secret|token)[\w.-]{0,64}\s{1,8}"
    r"|\s--from-literal=[\w.-]{1,128}=)(?!\[hidden\])[^\s\"']+"
)
SET_ENV = re.compile(r"(SetEnv[= ][\"']?\w+=)[^\s\"']+", re.IGNORECASE)
# What is hidden behind the first group, in this order, and the words without one of which there is nothing to look for.
SHOWN_UP_TO: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (ALONE_IN_URL, ("://",)),
    (IN_URL, ("://",)),
    (IN_QUERY, ("?", "&", "#")),
    (COOKIE, ("cookie",)),
    (HEADER, ("authorization", "x-")),
    (BEARER, ("bearer",)),
    (SHORT, (" -", "login", "configure")),
    (SET_ENV, ("setenv",)),
)
