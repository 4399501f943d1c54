# Two images. The dashboard over a mounted folder of caches (the default is the bundled one):
#     docker build --target dashboard -t routecal . && docker run --rm -p 8501:8501 routecal
# and the builder, which trains and extracts on NVIDIA GPUs. It writes checkpoints and shards into folders of yours, as you:
#     docker build --target builder -t routecal-builder . && mkdir -p runs data
#     docker run --rm --gpus all --user "$(id -u):$(id -g)" -v "$PWD/data:/srv/routecal/data" -v "$PWD/runs:/srv/routecal/runs" \
#         routecal-builder info

# --- packages of the dashboard, in a folder of their own: only it is copied on, and what pip leaves elsewhere stays here ---
FROM python:3.11-slim AS packages
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY requirements-dashboard.txt .
RUN python -m venv /opt/routecal \
    && /opt/routecal/bin/pip install --no-cache-dir --extra-index-url "$TORCH_INDEX" -r requirements-dashboard.txt \
    && /opt/routecal/bin/pip uninstall --yes pip

# --- the builder: Python 3.11 on a CUDA base; torch brings its own CUDA libraries ---
FROM nvidia/cuda:13.0.1-base-rockylinux9 AS builder
RUN dnf install -y python3.11 && dnf clean all && useradd --uid 10001 routecal
WORKDIR /srv/routecal
COPY requirements.txt requirements-dashboard.txt requirements-dev.txt ./
# `sweep --ray` needs ray and its one package more; elsewhere only the tests use them, so that is where they are pinned.
RUN python3.11 -m venv /opt/routecal \
    && /opt/routecal/bin/python -m pip install --no-cache-dir -r requirements.txt $(grep -E '^(ray|msgpack)==' requirements-dev.txt)
ENV PATH=/opt/routecal/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
COPY engine engine
COPY cache_builder cache_builder
# Where it writes when nothing is mounted there.
RUN mkdir -p runs data/shards && chown -R routecal runs data
USER routecal
ENTRYPOINT ["python", "-m", "cache_builder"]
CMD ["--help"]

# --- the dashboard: no timm, an ordinary user, a read-only file system but for /tmp ---
FROM python:3.11-slim AS dashboard
RUN useradd --uid 10001 routecal
COPY --from=packages /opt/routecal /opt/routecal
ENV PATH=/opt/routecal/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /srv/routecal
COPY pyproject.toml pyproject.toml
COPY .streamlit .streamlit
COPY engine engine
COPY cache_builder cache_builder
COPY app app
COPY pages pages
COPY data data
RUN python -m cache_builder publish
USER routecal
EXPOSE 8501
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8501/_stcore/health', timeout=3)"]
CMD ["python", "-m", "app", "serve", "--address", "0.0.0.0", "--port", "8501"]
