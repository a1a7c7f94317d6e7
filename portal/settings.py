"""Settings, all of them from the environment; without one, those of a developer's machine."""

import logging
from datetime import timedelta
from pathlib import Path

import django_stubs_ext
import environ
from django.utils.csp import CSP

from portal import logs
from portal.mail_server import mailer

django_stubs_ext.monkeypatch()  # generic base classes, as the type checker wants them: ModelAdmin[Claim]

env = environ.Env()
BASE_DIR = Path(__file__).resolve().parent.parent

DEBUG = env.bool("DEBUG", False)
# `check --deploy` knows the prefix (security.W009); outside DEBUG nothing is served or encrypted with it.
DEVELOPMENT_KEY = "django-insecure-development-key-do-not-use-in-production-0123456789"
SECRET_KEY = env.str("SECRET_KEY", DEVELOPMENT_KEY)
# Keys that encrypt cluster credentials at rest, newest first; old ones still decrypt.
CREDENTIAL_KEYS: list[str] = env.list("CREDENTIAL_KEYS", default=[])
ALLOWED_HOSTS: list[str] = env.list("ALLOWED_HOSTS", default=["127.0.0.1", "localhost", "[::1]"])
CSRF_TRUSTED_ORIGINS: list[str] = env.list("CSRF_TRUSTED_ORIGINS", default=[])

INSTALLED_APPS = [
    "portal.apps.PortalConfig",
    "core",
    "teams",
    "notify",
    "cluster",
    "inventory",
    "claims",
    "usage",
    "demo",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "django_htmx",
    "django_filters",
    "django_structlog",
    "rest_framework",
    "drf_spectacular",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
]
MIDDLEWARE = [
    "portal.health.probes",
    "core.middleware.RequestIdMiddleware",
    "core.rates.RateHeadersMiddleware",
    "core.conditional.ConditionalMiddleware",
    "core.middleware.ApiOverHttpsMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.middleware.csp.ContentSecurityPolicyMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",  # before what refuses a host
    "django.contrib.sessions.middleware.SessionMiddleware",
    "core.middleware.ApiSlashMiddleware",
    "django.middleware.common.CommonMiddleware",
    "core.middleware.StraightTextMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "teams.sessions.UserMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "teams.second_factor.SecondFactorMiddleware",
    "core.middleware.CachingMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django_structlog.middlewares.RequestMiddleware",
    "core.origin.OriginMiddleware",
    "teams.audit.middleware.AuditMiddleware",
    "core.middleware.PageRateMiddleware",
    "core.middleware.WrittenTextMiddleware",
    "core.middleware.PortalErrorMiddleware",
    "teams.zones.TimezoneMiddleware",
]
ROOT_URLCONF = "portal.urls"
WSGI_APPLICATION = "portal.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "django.template.context_processors.csp",
                "portal.context.shell",
            ],
            "builtins": ["core.templatetags.ui", "django.templatetags.i18n", "django.templatetags.static"],
        },
    }
]

FORM_RENDERER = "core.form_renderer.FormRenderer"

POOL_SIZE = env.int("DATABASE_POOL_SIZE", 8)  # connections per process; 0: a new one each time
# Prepared statements belong to a connection, which a pooler may change: PgBouncer before 1.21.
PREPARES = env.bool("DATABASE_PREPARED_STATEMENTS", True)
DATABASES = {"default": env.db_url("DATABASE_URL", "postgres://postgres:@localhost:5432/dragoman")}
DATABASES["default"] |= {
    "ATOMIC_REQUESTS": False,
    "CONN_HEALTH_CHECKS": True,
    "OPTIONS": {
        # A server that is gone without a word is noticed within seconds, not after the two hours of the
        # kernel: nobody answers the connection, its keepalives, or what was sent (in milliseconds).
        "connect_timeout": 4,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 2,
        "tcp_user_timeout": 15000,
        **DATABASES["default"].get("OPTIONS", {}),
        # A lock that is not had in 3 s, a statement that takes 10 s: something is wrong, say so.
        # Starting parallel workers takes longer than the query of a page, and the processes share the cores.
        "options": "-c lock_timeout=3000 -c statement_timeout=10000 -c timezone=UTC"
        # On SSDs and in memory a page read at random costs about as much as the next one. With the default of
        # 4, that of hard disks, PostgreSQL reads whole tables although an index has the few rows.
        " -c random_page_cost=1.1"
        " -c max_parallel_workers_per_gather=0",
        "prepare_threshold": 5 if PREPARES else None,  # uses of a core.prepared query, then it is planned
        "pool": POOL_SIZE and {"min_size": 0, "max_size": POOL_SIZE, "timeout": 5},
    },
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = env.str("REDIS_URL", "redis://localhost:6379/0")
CACHES = {"default": {"BACKEND": "core.cache.RedisCache", "LOCATION": REDIS_URL}}
# Celery spells a socket otherwise than redis-py.
CELERY_BROKER_URL = REDIS_URL.replace("unix://", "redis+socket://")
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_TASK_ROUTES = {
    "inventory.tasks.*": {"queue": "sync"},
    # Receivers of webhooks may be slow: beside the watches, in threads.
    "notify.webhooks.tasks.deliver_webhooks": {"queue": "webhooks"},
    # One process has the snapshots of the clusters.
    "claims.catalogue.tasks.refresh_availability": {"queue": "sync"},
    "claims.tasks.repair_availability": {"queue": "sync"},
    "claims.delivery.tasks.deliver": {"queue": "delivery"},
    "claims.delivery.tasks.reconcile_cluster": {"queue": "delivery"},
    "claims.delivery.tasks.reconcile_objects": {"queue": "delivery"},
    "claims.delivery.tasks.remove": {"queue": "delivery"},
    "claims.delivery.tasks.evict": {"queue": "delivery"},
}
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# A waiting worker is woken by a message at once; `polling_interval` is how long it waits for one at a time.
CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 600, "polling_interval": 10}

AUTH_USER_MODEL = "teams.User"
AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "allauth.account.auth_backends.AuthenticationBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "teams.passwords.OrganizationWordsValidator"},
    {"NAME": "teams.passwords.BreachedPasswordValidator"},
]
PASSWORD_WORDS: list[str] = env.list("PASSWORD_WORDS", default=[])  # of the organization, easy to guess
BREACHED_PASSWORDS = env.str("BREACHED_PASSWORDS", "")  # a file of SHA-1 digests in order, "" for none
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "home"
ACCOUNT_LOGOUT_REDIRECT_URL = "account_login"
ACCOUNT_LOGIN_METHODS = {"username", "email"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "email*", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_ADAPTER = "teams.adapter.AccountAdapter"
ACCOUNT_FORMS = {
    "login": "teams.adapter.SignInForm",
    "change_password": "teams.adapter.OwnPasswordForm",
    "reset_password_from_key": "teams.adapter.ForgottenPasswordForm",
}
SOCIALACCOUNT_ADAPTER = "teams.identity.provider.SocialAdapter"
SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"provider_class": "teams.identity.provider.Provider"}}
SOCIALACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_RATE_LIMITS = {
    "login_failed": "10/m/ip,5/5m/key",  # the key is a name with an address: teams.adapter
    # Of a name, from all addresses: more than one address can send in an hour, so that none alone fills it.
    "login_failed_anywhere": "100/h/key",
}
MFA_ADAPTER = "teams.passkeys.SecondFactorAdapter"
MFA_FORMS = {
    "add_webauthn": "teams.passkeys.PasskeyForm",
    "login_webauthn": "teams.passkeys.LoginForm",
    "authenticate_webauthn": "teams.passkeys.SecondFactorForm",
    "reauthenticate_webauthn": "teams.passkeys.ReauthenticationForm",
}
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_RATE_LIMITS = {"webauthn_login": "20/m/ip"}  # each sign-in with a passkey is two requests

# Mail is sent where EMAIL_URL names a server: smtp+tls://user:password@mail.example.org:587
MAIL_URL = env.str("EMAIL_URL", "")
MAILERS = {"default": mailer(MAIL_URL)}
SILENCED_SYSTEM_CHECKS = ["mail.E001"]  # a portal without mail is a choice: notices stand behind the bell
DEFAULT_FROM_EMAIL = env.str("EMAIL_FROM", "dragoman@localhost")
# Where people find the portal, without a slash at its end; mails have no links without it.
PORTAL_URL = env.str("PORTAL_URL", "")
# Of the Grafana with the dashboards of deploy/monitoring; no page links to one without it.
GRAFANA_URL = env.str("GRAFANA_URL", "")

LANGUAGE_CODE = "en"
TIME_ZONE = env.str("TIME_ZONE", "UTC")  # shown to readers who have not chosen their own; stored is UTC
USE_TZ = True
FORMAT_MODULE_PATH = ["core.formats"]

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = BASE_DIR / "staticfiles"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

WHITENOISE_MANIFEST_STRICT = False  # a file that was not collected costs its look, not the page

# HTTPS is the default; the demo on a loopback address says INSECURE_HTTP=true.
HTTPS = not env.bool("INSECURE_HTTP", DEBUG)
SECURE_SSL_REDIRECT = HTTPS
SECURE_REDIRECT_EXEMPT = ["^api/", "^scim/"]  # core.middleware.ApiOverHttpsMiddleware refuses them
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = HTTPS
SECURE_HSTS_PRELOAD = HTTPS
BEHIND_PROXY = env.bool("BEHIND_PROXY", False)
if BEHIND_PROXY:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
# How many of the addresses in X-Forwarded-For are of own proxies: failed sign-ins are limited per client.
ALLAUTH_TRUSTED_PROXY_COUNT = env.int("TRUSTED_PROXY_COUNT", int(BEHIND_PROXY))
SESSION_ENGINE = "teams.sessions"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True  # no script reads either: forms carry the token
if HTTPS:  # browsers take these names from this host alone, over HTTPS, for all paths (RFC 6265bis)
    SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = "__Host-sessionid", "__Host-csrftoken"
SESSION_COOKIE_AGE = int(timedelta(days=14).total_seconds())  # from the sign-in on
SESSION_IDLE = timedelta(hours=env.int("SESSION_IDLE_HOURS", 12))  # without a request of the person
X_FRAME_OPTIONS = "DENY"
SECURE_CSP = {
    "default-src": [CSP.SELF],
    "img-src": [CSP.SELF, "data:"],
    "object-src": [CSP.NONE],
    "base-uri": [CSP.NONE],
    "frame-ancestors": [CSP.NONE],
    "form-action": [CSP.SELF],
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["teams.tokens.BearerToken", "teams.tokens.BrowserSession"],
    "DEFAULT_PERMISSION_CLASSES": [
        "rest_framework.permissions.IsAuthenticated",
        "core.scopes.WithinScopes",
        "core.inputs.KnownParameters",
        "core.conditional.Unchanged",
    ],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["core.problems.BoundedJSON"],
    "DEFAULT_PAGINATION_CLASS": "core.inputs.Cursor",
    "DEFAULT_SCHEMA_CLASS": "core.schema.Schema",
    "EXCEPTION_HANDLER": "core.problems.exception_handler",
    "DEFAULT_THROTTLE_CLASSES": ["core.rates.RateLimit"],
}
API_RATE = env.str("API_RATE", "1200/min")  # requests of one person to the API
API_TOKEN_RATE = env.str("API_TOKEN_RATE", "600/min")  # of them with one token
API_ANONYMOUS_RATE = env.str("API_ANONYMOUS_RATE", "60/min")  # from one address, without a sound sign-in
SCIM_RATE = env.str("SCIM_RATE", "1200/min")  # requests of one identity provider to /scim/v2/
PAGE_RATE = env.str("PAGE_RATE", "600/min")  # requests of one person to pages
IMPORT_RATE = env.str("IMPORT_RATE", "30/min")  # imports of manifests of one person, pages and API
# How many may wait for a change of a claim at once in one process, of its eight threads.
LONG_POLLS = env.int("LONG_POLLS", 4)
SPECTACULAR_SETTINGS = {
    "TITLE": "Dragoman",
    "DESCRIPTION": "Ask for GPUs, follow a claim from request to release, read the fleet, usage and cost.",
    "VERSION": "1",
    "CONTACT": {"name": "The platform admins of your portal", "url": "https://portal.example.org/help/"},
    "LICENSE": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
    "SERVERS": [{"url": "https://portal.example.org", "description": "The address of your portal"}],
    "OAS_VERSION": "3.1.0",
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "portal.openapi.complete",
    ],
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_NAME_OVERRIDES": {
        "Scope": "core.scopes.Scope",
        "AccountScope": "teams.account_api.ACCOUNT_SCOPES",
        "Role": "teams.models.Role",
        "AccountRole": "teams.account_api.ACCOUNT_ROLES",
        "ClaimState": "claims.states.ClaimState",
        "DeviceState": "inventory.states.DeviceState",
        "Delivery": "claims.models.Delivery",
        "RequestStatus": "claims.models.RequestStatus",
        "Approval": "claims.models.Approval",
        "EndPolicy": "inventory.states.EndPolicy",
        "ProfileEndPolicy": "claims.models.limits.ProfileEndPolicy",
        "Sharing": "claims.catalogue.sharing.Sharing",
        "Actor": "claims.claim_page.api.ACTORS",
        "PendingKind": "claims.inbox.api.KIND_CHOICES",
        "NoticeKind": "notify.models.NoticeKind",
        "EventKind": "notify.webhooks.kinds.EventKind",
        "AccessKind": "inventory.models.cluster.TelemetryAccess.Kind",
        "ProfileChangeKind": "claims.catalogue.import_api.KINDS",
        "DiagnosisActor": "claims.claim_page.api.DIAGNOSIS_ACTORS",
    },
}

DJANGO_STRUCTLOG_TRUST_UPSTREAM_REQUEST_ID = True  # `RequestIdMiddleware` has checked it
DJANGO_STRUCTLOG_STATUS_START_LOG_LEVEL = logging.DEBUG  # one line per request, when it is finished
LOGGING = logs.configure(json=env.str("LOG_FORMAT", "json") == "json", level=env.str("LOG_LEVEL", "INFO"))

# Functions that a package calls in one above it, which it must not import.
DEVICE_HOLDERS = "claims.access.visible_holders"  # for inventory.holders
NAMESPACE_TEAMS = "claims.access.namespace_teams"  # for inventory.fleet
# Labels that name the pool of a node: Karpenter, GKE, EKS, AKS, and one for other sites.
NODE_POOL_LABELS = env.list(
    "NODE_POOL_LABELS",
    default=[
        "karpenter.sh/nodepool",
        "cloud.google.com/gke-nodepool",
        "eks.amazonaws.com/nodegroup",
        "kubernetes.azure.com/agentpool",
        "node-pool",
    ],
)
OBJECT_OWNERSHIP = "claims.observation.ownership.ownerships"  # for inventory.sync.rows
MAX_PRICES = "usage.rates.max_prices"  # for claims.catalogue.listing
PAST_UTILIZATION = "usage.telemetry.past_utilization"  # for claims.inbox.impact
SPENDING = "usage.spending.spending"  # for claims.budgets.use
START_POD = "demo.people.start_pod"  # for claims.claim_page.views, in the demo
# The demo's folder of kubeconfigs for people; "" everywhere else.
PEOPLE_KUBECONFIGS = env.str("DEMO_KUBECONFIGS", "")

# How long a request that nobody decides keeps its quota.
REQUEST_TTL = timedelta(days=env.int("REQUEST_TTL_DAYS", 7))
# How long after its announcement a pod of an ended claim is evicted (decision 14).
EVICTION_NOTICE = timedelta(minutes=env.int("EVICTION_NOTICE_MINUTES", 10))
# A mirror whose cluster has said nothing for so long is shown as stale.
STALE_AFTER = timedelta(seconds=env.int("STALE_AFTER_SECONDS", 90))
# How long entries of the audit log are kept.
AUDIT_RETENTION = timedelta(days=env.int("AUDIT_RETENTION_DAYS", 730))
# A file, or "-" for standard output of the worker, to which sealed entries are written as JSON lines.
AUDIT_LOG = env.str("AUDIT_LOG", "")
