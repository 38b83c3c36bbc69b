"""Secrets that tell what they are: tokens with their maker's prefix, blocks of private keys, files of credentials.

One table of our own. Kinds that detect-secrets had too keep its names, since policies use them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rag_mcp.text.secret_values import (
    holds_key_material,
    is_key,
    is_live_jwt,
    is_login,
    is_password,
    is_token,
)

__all__ = ["TOKEN_KINDS", "TOKEN_RULES", "TokenRule", "find_tokens"]


@dataclass(frozen=True, slots=True)
class TokenRule:
    """``shape`` is matched where one of ``marks`` stands, or ``leads`` characters before it.

    Every repetition in a shape is bounded, and none is followed by what it could match itself: the cost of one mark is
    bounded, so that of a text is linear. ``value`` may be named in the shape, else all of it is the value. ``inside``
    says that a letter or digit may stand before it.
    """

    kind: str
    marks: tuple[str, ...]
    shape: re.Pattern[str]
    leads: tuple[int, ...] = (0,)
    inside: bool = False
    genuine: Callable[[str], bool] = is_token


def find_tokens(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and kind of each, by rule. Cheap where there is no long word: prose has few."""
    words = "\n".join(_LONG_WORD.findall(text))
    begun = set(_BEGINNING.findall(words))
    begun |= {each[:2] for each in begun}
    for rule in TOKEN_RULES:
        anywhere = rule.inside or rule.leads != (0,)
        for mark in rule.marks:
            if (anywhere or mark[:3] in begun) and mark in (text if rule.inside else words):
                yield from _at_marks(rule, mark, text)
    for shape in _UNMARKED:
        if shape.search(words):
            yield from ((*found.span(), "Private Key") for found in shape.finditer(text) if is_token(found[0]))
    if _ENCODED_KEY.search(words):
        yield from _encoded_keys(text)
    yield from _torn_blocks(text)


# Keys of wallets and disks: nothing but their length, their first letter and their alphabet tell what they are.
_UNMARKED = (
    re.compile(r"(?<![\w+/=.-])(?:[5KL][1-9A-HJ-NP-Za-km-z]{50,51}|6P[1-9A-HJ-NP-Za-km-z]{56})(?![\w+/=.-])"),
    re.compile(r"(?<![\w-])[0-9]{6}(?:-[0-9]{6}){7}(?![\w-])"),
)


def _encoded_keys(text: str) -> Iterator[tuple[int, int, str]]:
    """Base64 of a private key's block, with the lines it is wrapped to; from wherever its run begins."""
    behind = 0
    for found in _ENCODED_KEY.finditer(text):
        if found.start() < behind:
            continue
        start = found.start()
        while start > max(behind, found.start() - _ENCODED_LEAD) and text[start - 1] in _BASE64_CHARS:
            start -= 1
        run = _ENCODED_RUN.match(text, start)
        if run is None:
            continue
        behind = run.end()
        if len(run[0]) >= 64 and len(set(run[0])) >= 20:
            yield start, run.end(), "Private Key"


# "PRIVATE KEY" at its three offsets in base64
_ENCODED_KEY = re.compile(r"UFJJVkFURSBLRV|BSSVZBVEUgS0VZ|QUklWQVRFIEtFW")
_ENCODED_LEAD = 64
_BASE64_CHARS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=_-")
_ENCODED_RUN = re.compile(r"[A-Za-z0-9+/=_-]+(?:\n[ \t>]{0,16}[A-Za-z0-9+/=_-]{16,}+)*+")


def _torn_blocks(text: str) -> Iterator[tuple[int, int, str]]:
    """The rest of a private key whose beginning was cut off: base64 before its last line."""
    behind = 0
    for found in _KEY_END.finditer(text):
        start = max(behind, found.start() - _TORN_CHARS)
        start = max(start, text.rfind("-----", start, found.start()) + 5)
        behind = found.end()
        body = _BODY_LINE.search(text, start, found.start())
        if body is not None and holds_key_material(text[body.start() : found.start()]):
            yield body.start(), found.start(), "Private Key"


_KEY_END = re.compile(r"-----END (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY")
_BODY_LINE = re.compile(r"[A-Za-z0-9+/=]{16}")
_TORN_CHARS = 2048
_LONG_WORD = re.compile(r"[A-Za-z0-9_+/=.~:?&%@\\-]{20,}")
# The first characters of whatever ``_begins`` lets begin.
_BEGINNING = re.compile(r"(?:(?<![A-Za-z0-9_+-])|(?<=\\[nrt]))(?=([A-Za-z0-9][^\n]{2}))")
_ESCAPES = ("\\n", "\\t", "\\r")


def _at_marks(rule: TokenRule, mark: str, text: str) -> Iterator[tuple[int, int, str]]:
    at, behind = text.find(mark), 0
    while at >= 0:
        for lead in rule.leads:
            start = at - lead
            if start < behind or not (rule.inside or _begins(text, start)):
                continue
            found = rule.shape.match(text, start)
            if found is None:
                continue
            name = "value" if "value" in rule.shape.groupindex else 0
            behind = found.end()  # also when it is not genuine: no character is looked at by two matches
            if rule.genuine(found[name]):
                yield found.start(name), found.end(name), rule.kind
            break
        at = text.find(mark, max(at + len(mark), behind))


def _begins(text: str, start: int) -> bool:
    r"""No letter, digit or sign of base64 stands before ``start``, but the ``n`` of a line end written ``\n`` may."""
    if start <= 0:
        return start == 0
    before = text[start - 1]
    return not (before.isascii() and (before.isalnum() or before in "_+-")) or text[start - 2 : start] in _ESCAPES


# --- the table -------------------------------------------------------------------------------------------------------

_END = r"(?![A-Za-z0-9+/=_-])"
_URL = "[A-Za-z0-9_-]"
_HEX = "[0-9a-f]"
_UUID = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"

# kind, prefixes, what follows.
_PREFIXED: tuple[tuple[str, str, str], ...] = (
    ("AWS Access Key", "AKIA ASIA ABIA ACCA", r"[0-9A-Z]{16}(?![A-Za-z0-9])"),
    ("AWS Bedrock Key", "ABSKQmVkcm9ja0FQSUtleS bedrock-api-key-", r"[A-Za-z0-9+/=]{20,400}+"),
    ("AWS Bedrock Key", "ABSK", r"[A-Za-z0-9+/=]{80,400}+"),
    ("AWS Session Token", "IQoJb3JpZ2luX2Vj FwoGZXIvYXdz", r"[A-Za-z0-9+/=]{100,4000}+"),
    ("Amazon Secret", "amzn.mws.", _UUID),
    ("Amazon Secret", "amzn1.oa2-cs.v1.", rf"{_HEX}{{64}}"),
    ("Airtable Token", "pat", rf"[A-Za-z0-9]{{14}}\.{_HEX}{{64}}"),
    ("Adafruit Key", "aio_", r"[A-Za-z0-9]{28}" + _END),
    ("Adobe Secret", "p8e-", r"[A-Za-z0-9]{32}" + _END),
    ("Alibaba Access Key", "LTAI", r"[A-Za-z0-9]{16,24}" + _END),
    ("Tencent Secret Id", "AKID", r"[A-Za-z0-9]{32}" + _END),
    ("Yandex Key", "AQVN", r"[A-Za-z0-9_-]{35,38}" + _END),
    ("Yandex Key", "YCAJE", r"[A-Za-z0-9_-]{20,30}" + _END),
    ("Yandex Token", "t1.", r"[A-Za-z0-9_-]{1,400}\.[A-Za-z0-9_-]{86}"),
    ("Anthropic Token", "sk-ant-", _URL + "{32,300}+"),
    ("Atlassian Token", "ATTA", rf"{_HEX}{{64}}[0-9A-Z]{{8}}" + _END),
    ("Asana Token", "1/ 2/", rf"[0-9]{{12,20}}(?:/[0-9]{{12,20}})?:{_HEX}{{32}}" + _END),
    ("Cerebras Token", "csk-", r"[a-z0-9]{40,60}+"),
    ("Cloudflare Token", "eyJhIjoi", r"[A-Za-z0-9+/=]{80,400}+(?![.])"),
    ("Confluent Token", "cflt", r"[A-Za-z0-9+/_-]{60}" + _END),
    ("Discord Token", "mfa.", r"[A-Za-z0-9_-]{60,100}+"),
    ("E2B Token", "e2b_", rf"{_HEX}{{40}}" + _END),
    ("ElevenLabs Token", "sk_", rf"{_HEX}{{48}}" + _END),
    ("Firecrawl Token", "fc-", rf"{_HEX}{{32}}" + _END),
    ("Jina Token", "jina_", rf"{_HEX}{{32}}[A-Za-z0-9_-]{{20,40}}+"),
    ("n8n Token", "n8n_api_", r"[A-Za-z0-9_.-]{40,400}+"),
    ("Neon Token", "napi_", r"[a-z0-9]{40,80}+"),
    ("NetBird Token", "nbp_", r"[A-Za-z0-9]{36}" + _END),
    ("ntfy Token", "tk_", r"[a-z0-9]{29}" + _END),
    ("Pinecone Token", "pcsk_", r"[A-Za-z0-9]{4,8}_[A-Za-z0-9]{40,70}+"),
    ("Riot Token", "RGAPI-", _UUID),
    ("RunPod Token", "rpa_", r"[A-Za-z0-9]{40,50}" + _END),
    ("Stytch Secret", "secret-live-", r"[A-Za-z0-9_=-]{30,60}+"),
    ("Tavily Token", "tvly-", r"(?:dev-|prod-)?[A-Za-z0-9_-]{30,60}+"),
    ("Together Token", "tgp_v1_", _URL + "{40,50}+"),
    ("Uptime Kuma Token", "uk1_", _URL + "{40}" + _END),
    ("Voyage Token", "pa-", _URL + "{43}" + _END),
    ("Google HMAC Secret", "GOOG1E", r"[A-Z0-9]{54,60}" + _END),
    ("Apify Token", "apify_api_", r"[A-Za-z0-9]{30,60}+"),
    ("Artifactory Credentials", "AKCp", r"[A-Za-z0-9]{60,75}" + _END),
    ("Artifactory Credentials", "cmVmdGtu", r"[A-Za-z0-9]{50,64}" + _END),
    ("Atlassian Token", "ATATT3 ATCTT3 ATBB ATOA", r"[A-Za-z0-9_=-]{24,400}+"),
    ("Brevo Token", "xkeysib- xsmtpsib-", rf"{_HEX}{{64}}-[A-Za-z0-9]{{16}}"),
    ("Buildkite Token", "bkua_ bkpat_", r"[A-Za-z0-9]{36,60}+"),
    ("CircleCI Token", "CCIPAT_ CCIPRJ_", r"[A-Za-z0-9]{15,30}_[A-Za-z0-9]{40}"),
    ("Clojars Token", "CLOJARS_", r"[A-Za-z0-9]{60}"),
    ("ClickUp Token", "pk_", r"[0-9]{5,10}_[A-Z0-9]{32}" + _END),
    ("Cloudflare Token", "v1.0-", r"[0-9a-f]{24}-[0-9a-f]{146}"),
    ("Cloudflare Token", "cfut_ cfat_ cfk_", r"[A-Za-z0-9_-]{32,80}+"),
    ("Contentful Token", "CFPAT-", _URL + "{40,60}+"),
    ("Databricks Token", "dapi", rf"{_HEX}{{32}}(?:-[0-9])?" + _END),
    ("DigitalOcean Token", "dop_v1_ doo_v1_ dor_v1_", rf"{_HEX}{{64}}"),
    ("Docker Token", "dckr_pat_ dckr_oat_", _URL + "{27,64}+"),
    ("Docker Credentials", "eyJhdXRocyI6 ewogICJhdXRocyI6 ewoJImF1dGhzIjo eyAiYXV0aHMi", r"[A-Za-z0-9+/=]{40,4096}+"),
    ("Doppler Token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", r"(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}"),
    ("Dropbox Token", "sl.", _URL + "{120,2000}+"),
    ("Duffel Token", "duffel_live_", r"[A-Za-z0-9_=-]{43}"),
    ("Dynatrace Token", "dt0c01. dt0s01. dt0s02. dt0s16.", r"[A-Z0-9]{8,24}\.[A-Z0-9]{64}"),
    ("EasyPost Token", "EZAK EZTK", r"[A-Za-z0-9]{54}" + _END),
    ("Facebook Token", "EAAC EAAB EAAG EAAD EAAM EAAJ", r"[A-Za-z0-9]{60,400}" + _END),
    ("Figma Token", "figd_ figo_", _URL + "{38,60}+"),
    ("Flutterwave Key", "FLWSECK-", r"[A-Za-z0-9]{12,48}-X"),
    ("Fly.io Token", "fo1_", r"[A-Za-z0-9_-]{43}"),
    ("Fly.io Token", "fm1r_ fm2_ fm1a_", r"[A-Za-z0-9+/=]{60,2000}+"),
    ("Frame.io Token", "fio-u-", r"[A-Za-z0-9=_-]{64}"),
    ("Fireworks Token", "fw_", r"[A-Za-z0-9]{24}" + _END),
    ("GitHub Token", "ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9_]{36,255}+"),
    ("GitHub Token", "github_pat_", r"[A-Za-z0-9_]{60,255}+"),
    ("GitLab Token", "glpat- gldt- glft- glsoat- glrt- glrtr- glcbt- glimt- glptt- glagent- gloas- glffct- GR1348941", r"[A-Za-z0-9_=.-]{20,300}+"),
    ("Google API Key", "AIza", rf"{_URL}{{35}}" + _END),
    ("Google OAuth Secret", "GOCSPX-", _URL + "{28}"),
    ("Google OAuth Token", "ya29.", r"[A-Za-z0-9_-]{40,1000}+"),
    ("Google OAuth Token", "1//0", r"[A-Za-z0-9_-]{40,200}+"),
    ("Grafana Token", "glc_", r"[A-Za-z0-9+/=]{32,400}+"),
    ("Grafana Token", "glsa_", r"[A-Za-z0-9]{32}_[0-9A-Fa-f]{8}"),
    ("Groq Token", "gsk_", r"[A-Za-z0-9]{40,60}+"),
    ("Harness Token", "pat. sat.", r"[A-Za-z0-9_-]{22}\.[0-9a-f]{24}\.[A-Za-z0-9]{20}"),
    ("Heroku Token", "HRKU-", r"[A-Za-z0-9_-]{36,70}+"),
    ("Hugging Face Token", "hf_ api_org_", r"[A-Za-z0-9]{34,40}" + _END),
    ("HubSpot Token", "pat-na1- pat-eu1- pat-na2- pat-eu2- pat-ap1-", _UUID),
    ("Infracost Token", "ico-", r"[A-Za-z0-9]{32}" + _END),
    ("Langfuse Token", "sk-lf-", _UUID),
    ("LangSmith Token", "lsv2_pt_ lsv2_sk_", rf"{_HEX}{{32}}_{_HEX}{{10}}"),
    ("Linear Token", "lin_api_ lin_oauth_", r"[A-Za-z0-9]{32,64}+"),
    ("Mailgun Key", "key-", r"[0-9a-f]{32}" + _END),
    ("MapBox Token", "sk.eyJ", r"[A-Za-z0-9_-]{30,300}\.[A-Za-z0-9_-]{20,40}+"),
    ("MessageBird Key", "live_", r"[A-Za-z0-9]{25}" + _END),
    ("Netlify Token", "nfp_ nfc_ nfo_ nfu_ nfb_", r"[A-Za-z0-9]{36}"),
    ("New Relic Key", "NRAK- NRJS- NRII- NRAA- NRBR- NRIQ- NRRA-", r"[A-Za-z0-9_-]{19,36}+"),
    ("NPM tokens", "npm_", r"[A-Za-z0-9]{36}"),
    ("NuGet Key", "oy2", r"[a-z0-9]{43}" + _END),
    ("Notion Token", "ntn_", r"[A-Za-z0-9]{40,60}+"),
    ("Notion Token", "secret_", r"[A-Za-z0-9]{43}" + _END),
    ("NVIDIA Token", "nvapi-", _URL + "{50,80}+"),
    ("Octopus Key", "API-", r"[A-Z0-9]{25,32}" + _END),
    ("1Password Token", "ops_eyJ", r"[A-Za-z0-9_+/=-]{100,2000}+"),
    ("1Password Key", "A3-", r"[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}"),
    ("OpenAI Token", "sk-proj- sk-svcacct- sk-admin- sk-None-", _URL + "{40,300}+"),
    ("OpenAI Token", "sk-", r"[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}"),
    ("OpenAI Token", "sk-", r"[A-Za-z0-9]{32,64}" + _END),
    ("OpenRouter Token", "sk-or-v1-", rf"{_HEX}{{64}}"),
    ("PayStack Key", "sk_live_", rf"{_HEX}{{40}}"),
    ("Perplexity Token", "pplx-", r"[A-Za-z0-9]{40,64}+"),
    ("PlanetScale Token", "pscale_tkn_ pscale_pw_ pscale_oauth_", r"[A-Za-z0-9_.=-]{32,64}+"),
    ("Plaid Token", "access-production- access-development-", _UUID),
    ("PostHog Key", "phx_", r"[A-Za-z0-9_]{40,60}+"),
    ("Postman Key", "PMAK-", rf"{_HEX}{{24}}-{_HEX}{{34}}"),
    ("Prefect Token", "pnu_ pnb_", r"[A-Za-z0-9]{36}" + _END),
    ("Pulumi Token", "pul-", rf"{_HEX}{{40}}"),
    ("PyPI Token", "pypi-AgE pypi-", r"[A-Za-z0-9_-]{70,400}+"),
    ("ReadMe Token", "rdme_", r"[a-z0-9]{70}"),
    ("Render Token", "rnd_", r"[A-Za-z0-9]{32}" + _END),
    ("Replicate Token", "r8_", r"[A-Za-z0-9]{37}" + _END),
    ("Resend Key", "re_", r"[A-Za-z0-9]{8}_[A-Za-z0-9]{24}" + _END),
    ("RubyGems Token", "rubygems_", rf"{_HEX}{{48}}"),
    ("Scalingo Token", "tk-us- tk-eu-", r"[A-Za-z0-9_-]{48}"),
    ("Cargo Token", "cio", r"[A-Za-z0-9]{32}" + _END),
    ("SendGrid API Key", "SG.", r"[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    ("Sentry Token", "sntrys_ sntryu_ sntrya_", r"[A-Za-z0-9+/=_]{40,600}+"),
    ("Sendinblue Token", "sib-", rf"{_HEX}{{64}}"),
    ("Settlemint Token", "sm_pat_ sm_aat_ sm_sat_", r"[A-Za-z0-9]{16,40}+"),
    ("Shippo Token", "shippo_live_", rf"{_HEX}{{40}}"),
    ("Shopify Token", "shpat_ shpca_ shppa_ shpss_ shprt_ shptka_", r"[0-9a-fA-F]{32}"),
    ("Slack Token", "xoxb- xoxp- xoxa- xoxr- xoxo- xoxs- xoxe- xoxd- xoxc-", r"(?:[0-9]{1,2}-)?[A-Za-z0-9%-]{20,400}+"),
    ("Slack Token", "xoxe.xoxb- xoxe.xoxp-", r"[0-9]-[A-Za-z0-9-]{40,300}+"),
    ("Slack Token", "xapp-", r"[0-9]-[A-Za-z0-9]{8,24}-[0-9]{8,20}-[A-Za-z0-9]{32,80}+"),
    ("Snyk Token", "snyk_uat. snyk_sat.", r"[A-Za-z0-9_.-]{40,300}+"),
    ("SonarQube Token", "squ_ sqp_ sqa_", rf"{_HEX}{{40}}"),
    ("Sourcegraph Token", "sgp_ sgd_ slk_", r"(?:[0-9a-f]{16}_|local_)?[0-9a-f]{40,64}" + _END),
    ("Square OAuth Secret", "sq0csp- sq0atp- sq0idp-", _URL + "{22,43}+"),
    ("Square OAuth Secret", "EAAA", r"[A-Za-z0-9_-]{60}" + _END),
    ("Stripe Access Key", "sk_live_ rk_live_ sk_org_live_", r"[A-Za-z0-9]{16,247}+"),
    ("Stripe Access Key", "whsec_", r"[A-Za-z0-9+/=]{32,80}+"),
    ("Supabase Token", "sbp_ sb_secret_", r"[A-Za-z0-9_-]{30,60}+"),
    ("Tailscale Key", "tskey-", r"(?:auth|api|client|scim|webhook)-[A-Za-z0-9]{8,24}-[A-Za-z0-9]{16,60}+"),
    ("Terraform Token", "atlasv1.", r"[A-Za-z0-9_=-]{60,70}+"),
    ("Twilio API Key", "SK", rf"{_HEX}{{32}}" + _END),
    ("Typeform Token", "tfp_", r"[A-Za-z0-9_.-]{40,70}+"),
    ("Vault Token", "hvs. hvb. hvr.", _URL + "{24,400}+"),
    ("Vault Token", "s. b.", r"[A-Za-z0-9]{24}(?![A-Za-z0-9_.-])"),
    ("Vercel Token", "vcp_ vci_ vca_ vcr_ vck_", r"[A-Za-z0-9]{24,64}+"),
    ("Weights and Biases Key", "wandb_v1_", r"[A-Za-z0-9_]{60,120}+"),
    ("xAI Token", "xai-", r"[A-Za-z0-9]{60,100}+"),
    ("Zapier Webhook", "hooks.zapier.com/hooks/catch/", r"[0-9]{4,12}/[A-Za-z0-9]{6,20}"),
    ("Zuplo Key", "zpka_", r"[a-z0-9]{32}_[a-f0-9]{8}"),
    # Keys of people and machines.
    ("Private Key", "AGE-SECRET-KEY-1 AGE-SECRET-KEY-PQ-1", r"[0-9A-Z]{50,2000}+"),
    ("Private Key", "age-secret-key-1", r"[0-9a-z]{58}"),
    ("Private Key", "nsec1", r"[02-9ac-hj-np-z]{58}" + _END),
    ("Private Key", "xprv yprv zprv tprv", r"[A-Za-z0-9]{105,110}" + _END),
    ("Private Key", "MIIEpAIBAAKCAQEA MIIEowIBAAKCAQEA MIIEogIBAAKCAQEA MIIEpQIBAAKCAQEA MIIJKAIBAAKCAgEA MIIJKQIBAAKCAgEA MIIJJwIBAAKCAgEA MIIG4wIBAAKCAYEA MIIG5AIBAAKCAYEA MIICXAIBAAKBgQ MIICXQIBAAKBgQ MIICWwIBAAKBgQ MHcCAQEEI MIGkAgEBBD MIHcAgEBBEI MC4CAQAwBQYDK2VwBCIEI MC4CAQAwBQYDK2VuBCIEI MIGHAgEAMBMGByqGSM49 MIG2AgEAMBAGByqGSM49 MIIEvgIBADANBgkqhkiG9w0BAQEFAASC MIIEvQIBADANBgkqhkiG9w0BAQEFAASC MIIEvAIBADANBgkqhkiG9w0BAQEFAASC MIIJQgIBADANBgkqhkiG9w0BAQEFAASC MIIJQwIBADANBgkqhkiG9w0BAQEFAASC b3BlbnNzaC1rZXktdjE", r"[A-Za-z0-9+/=]{16,4096}+"),
)  # fmt: skip


def _prefixed(kind: str, marks: str, body: str) -> TokenRule:
    words = tuple(marks.split())
    return TokenRule(kind, words, re.compile(f"(?:{'|'.join(map(re.escape, words))}){body}"))


def _is_not_sample(value: str) -> bool:
    return is_login("", value)


def _bot_token(value: str) -> bool:
    return is_token(value) and is_key(value.replace(":", ""))


_HOOK = r"[A-Za-z0-9_/+=@.-]{0,200}"

# Shapes that need more than a prefix.
_SHAPED: tuple[TokenRule, ...] = (
    TokenRule(
        "Private Key",
        ("BEGIN ",),
        re.compile(
            r"BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?(?:-{2,5}| ?-{4})?(?P<value>(?:[^-]|-(?!-)){0,4096})"
        ),
        inside=True,
        genuine=holds_key_material,
    ),
    TokenRule(
        "Private Key",
        ("Private-Lines:",),
        re.compile(r"Private-Lines:[ \t]{0,4}[0-9]{1,4}(?P<value>[^-]{0,4096})"),
        inside=True,
        genuine=holds_key_material,
    ),
    TokenRule(
        "Private Key",
        ("PrivateKey", "PresharedKey", "private_key", "preshared_key"),
        re.compile(r"(?:PrivateKey|PresharedKey|private_key|preshared_key)[\"']?[ \t]{0,8}[=:][ \t]{0,8}[\"']?(?P<value>[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=)(?![\w+/=])"),
        inside=True,
    ),
    TokenRule(
        "JSON Web Key",
        ('"d"',),
        re.compile(r'"d"\s{0,8}:\s{0,8}"(?P<value>[A-Za-z0-9_-]{43,700}+)"'),
        inside=True,
    ),
    TokenRule(
        "JSON Web Token",
        ("eyJ",),
        re.compile(r"eyJ[A-Za-z0-9_-]{8,4096}+\.[A-Za-z0-9_=-]{2,16384}+\.[A-Za-z0-9_+/=-]{16,2048}+"),
        genuine=is_live_jwt,
    ),
    TokenRule(
        "Azure Storage Account access key",
        ("AccountKey=", "SharedAccessKey=", "accountkey=", "sharedaccesskey="),
        re.compile(r"(?:AccountKey|SharedAccessKey|accountkey|sharedaccesskey)=(?P<value>[A-Za-z0-9+/%]{40,100}+={0,2})"),
        inside=True,
    ),
    TokenRule(
        "Azure Shared Access Signature",
        ("sig=",),
        re.compile(r"sig=(?P<value>(?:[A-Za-z0-9_-]|%(?:25)?(?:2[BbFf]|3[Dd])|[+/=]){40,140}+)"),
    ),
    TokenRule("Azure Client Secret", ("Q~",), re.compile(r"[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}"), leads=(4,)),
    TokenRule(
        "Discord Webhook",
        ("/webhooks/",),
        re.compile(r"/webhooks/[0-9]{15,22}/(?P<value>[A-Za-z0-9_-]{50,90}+)"),
        inside=True,
    ),
    TokenRule(
        "Discord Bot Token",
        tuple(f"{first}{second}" for first in "MNO" for second in "DTjz"),
        re.compile(r"[MNO][A-Za-z0-9]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}" + _END),
    ),
    TokenRule(
        "Slack Token",
        ("hooks.slack.com/",),
        re.compile(r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9]{6,14}/[A-Za-z0-9]{6,20}/(?P<value>[A-Za-z0-9/]{20,80}+)"),
        inside=True,
    ),
    TokenRule("Chat Webhook", ("/hooks/",), re.compile(r"/hooks/(?P<value>[a-z0-9]{26})" + _END), inside=True),
    TokenRule("IFTTT Webhook", ("/with/key/",), re.compile(r"/with/key/(?P<value>[A-Za-z0-9_-]{20,60}+)"), inside=True),
    TokenRule("Twitter Bearer Token", ("A" * 19,), re.compile(r"A{19,24}(?P<value>[A-Za-z0-9%]{60,140}+)(?![\w+/=-])")),
    TokenRule("RapidAPI Key", ("msh",), re.compile(r"[0-9a-f]{10}msh[0-9a-f]{15}p1[0-9a-f]{6}jsn[0-9a-f]{12}" + _END), leads=(10,)),
    TokenRule("Azure DevOps Token", ("AZDO",), re.compile(r"[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}" + _END), leads=(76,)),
    TokenRule("Azure Function Key", ("AzFu", "AzSe"), re.compile(r"[A-Za-z0-9_-]{42,44}AzFu[A-Za-z0-9_=-]{8,10}|[A-Za-z0-9]{42}AzSe[A-Za-z0-9]{6}"), leads=(44, 43, 42)),
    TokenRule(
        "Microsoft Teams Webhook",
        (".webhook.office.com/", "outlook.office.com/webhook/"),
        re.compile(rf"(?:\.webhook|outlook)\.office\.com/webhook(?:b2)?/{_HOOK}"),
        inside=True,
    ),
    TokenRule(
        "Telegram Bot Token",
        (":AA",),
        re.compile(r"[0-9]{8,10}:(?P<value>AA[A-Za-z0-9_-]{33})" + _END),
        leads=(10, 9, 8),
        inside=True,
        genuine=_bot_token,
    ),
    TokenRule("Mailchimp Access Key", ("-us",), re.compile(r"[0-9a-f]{32}-us[0-9]{1,2}" + _END), leads=(32,)),
    TokenRule(
        "NPM tokens",
        (":_authToken=", ":_password=", ":_auth="),
        re.compile(r":_(?:authToken|password|auth)=[ \t]{0,4}[\"']?(?P<value>[A-Za-z0-9_+/=.-]{8,512}+)"),
        inside=True,
        genuine=is_password,
    ),
    TokenRule(
        "netrc",
        ("machine ",),
        re.compile(
            r"machine[ \t]{1,8}[\w.-]{1,120}\s{1,8}login\s{1,8}\S{1,120}\s{1,8}password\s{1,8}(?P<value>[^\s<>{}$]{6,200})"
        ),
        inside=True,
        genuine=_is_not_sample,
    ),
    TokenRule(
        "Artifactory Credentials",
        ("AP",),
        re.compile(r"AP[0-9A-F][A-Za-z0-9]{30}(?:[A-Za-z0-9]{3,40})?" + _END),
        genuine=lambda value: is_token(value) and value.startswith("APB") and is_key(value),
    ),
)  # fmt: skip

TOKEN_RULES: tuple[TokenRule, ...] = (*(_prefixed(*row) for row in _PREFIXED), *_SHAPED)
TOKEN_KINDS = tuple(sorted({rule.kind for rule in TOKEN_RULES}))
