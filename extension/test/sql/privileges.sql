-- Who may ask, who may not; loading is in test_transactions.py.
CREATE ROLE regress_fullbore;
CREATE TABLE t (k int4);
SET ROLE regress_fullbore;
SELECT fullbore.descriptor('t'::regclass);
RESET ROLE;
GRANT USAGE ON SCHEMA fullbore TO regress_fullbore;
SET ROLE regress_fullbore;
SELECT fullbore.descriptor('t'::regclass);
RESET ROLE;
GRANT EXECUTE ON FUNCTION fullbore.descriptor(regclass) TO regress_fullbore;
GRANT ALL ON t TO regress_fullbore;
SET ROLE regress_fullbore;
SELECT fullbore.descriptor('t'::regclass) IS NOT NULL AS told;
RESET ROLE;
DROP OWNED BY regress_fullbore;
DROP ROLE regress_fullbore;
DROP TABLE t;
