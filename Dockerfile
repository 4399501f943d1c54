# The dashboard over a mounted cache: docker build -t routecal . && docker run -p 8501:8501 -v $PWD/data:/srv/routecal/data routecal
FROM python:3.11-slim

RUN useradd --create-home routecal
WORKDIR /srv/routecal
COPY requirements.txt .
RUN pip install --no-cache-dir -r requirements.txt
COPY --chown=routecal . .
USER routecal

RUN python -m cache_builder publish
EXPOSE 8501
HEALTHCHECK CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://localhost:8501/_stcore/health', timeout=3)"]
CMD ["python", "-m", "streamlit", "run", "app/main.py", "--server.address=0.0.0.0", "--server.port=8501"]
