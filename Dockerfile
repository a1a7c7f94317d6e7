# syntax=docker/dockerfile:1
FROM python:3.12-slim-bookworm AS build
COPY --from=ghcr.io/astral-sh/uv:0.13.8 /uv /usr/local/bin/uv
ENV UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy UV_PYTHON_DOWNLOADS=never
WORKDIR /app
COPY pyproject.toml uv.lock ./
# The demo group brings the simulator's server and node for the web assets; it stays in this stage and in `simulator`.
RUN uv sync --frozen --no-default-groups --group demo --python /usr/local/bin/python3.12
COPY . .
RUN .venv/bin/python -m core.assets \
    && DATABASE_URL=postgres://none SECRET_KEY=build-only-0123456789-abcdefghijklmnopqrstuvwxyz-0123456789 \
       .venv/bin/python manage.py collectstatic --noinput \
    && rm -rf node_modules

FROM build AS lean
# docker build --build-arg EXTRA=parquet: what pyproject.toml lists as optional
ARG EXTRA=""
RUN uv sync --frozen --no-default-groups ${EXTRA:+--extra "$EXTRA"} --python /usr/local/bin/python3.12

FROM python:3.12-slim-bookworm AS runtime
RUN useradd --system --uid 10001 --no-create-home dragoman
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PATH=/app/.venv/bin:$PATH
WORKDIR /app
USER 10001

FROM runtime AS simulator
COPY --from=build /app /app
EXPOSE 9001
CMD ["python", "-m", "simulator", "--host", "0.0.0.0", "--port", "9001"]

FROM runtime AS portal
COPY --from=lean /app /app
EXPOSE 8000
CMD ["gunicorn", "-c", "python:portal.serving", "--bind", "0.0.0.0:8000"]
