-- Roles and databases of both servers, made when PostgreSQL's volume is new. psql takes the passwords from the
-- environment (psql 14 or newer), so that they stand in no file and no argument.
\getenv mlflow_password ASSAY_STACK_MLFLOW_DATABASE_PASSWORD
\getenv prefect_password ASSAY_STACK_PREFECT_DATABASE_PASSWORD
CREATE ROLE mlflow LOGIN PASSWORD :'mlflow_password';
CREATE ROLE prefect LOGIN PASSWORD :'prefect_password';
CREATE DATABASE mlflow OWNER mlflow;
CREATE DATABASE mlflow_auth OWNER mlflow;
CREATE DATABASE prefect OWNER prefect;
REVOKE CONNECT, TEMPORARY ON DATABASE mlflow, mlflow_auth, prefect FROM PUBLIC;
