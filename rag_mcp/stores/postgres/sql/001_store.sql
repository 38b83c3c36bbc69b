-- Every table that tells of a passage has the class in it, and a partition for each class: row-level security looks at
-- nothing else, and neither a plan nor its costs tell a role of partitions it may not see.

-- Which generations there are; identity, derivation and notes are JSON.
create table generation (
    number int primary key,
    parent int,
    build int not null,
    created_at text not null,
    identity text not null,
    derivation text not null,
    notes text not null
);

-- The one that answers. serial grows with every publication and rollback.
create table live (
    only_row boolean primary key default true check (only_row),
    number int not null references generation (number),
    serial bigint not null
);

-- What a generation holds of each class: passages, one more than the greatest of their numbers, their terms, and how many
-- are in which language.
create table plane (
    class text not null,
    generation int not null references generation (number) on delete cascade,
    docs int not null,
    numbers int not null,
    body_terms bigint not null,
    lead_terms bigint not null,
    languages text not null,
    primary key (class, generation)
) partition by list (class);

-- One passage as it was from generation added to before removed. words are its terms with their positions.
create table chunk (
    class text not null,
    no int not null,
    build int not null,
    added int not null,
    removed int,
    id text collate "C" not null,
    language text not null,
    body_terms int not null,
    lead_terms int not null,
    payload text not null,
    words bytea not null,
    primary key (class, build, no)
) partition by list (class);
create index chunk_by_id on chunk (class, id);
create index chunk_removed on chunk (class, removed) where removed is not null;

-- Vectors stay when only the record of a passage changes. Their indexes, one for each class and build, are of half the
-- precision; the cosine told is that of the vector itself.
create table embedding (
    class text not null,
    build int not null,
    added int not null,
    removed int,
    id text collate "C" not null,
    v vector not null,
    primary key (class, build, id, added)
) partition by list (class);
create index embedding_removed on embedding (class, removed) where removed is not null;

-- The inverted file. A segment never changes; gone are the passages of segments that have been removed since.
create table segment (
    class text not null,
    seg int not null,
    build int not null,
    added int not null,
    removed int,
    docs int not null,
    primary key (class, seg)
) partition by list (class);
create table post (
    class text not null,
    seg int not null,
    term text collate "C" not null,
    data bytea not null,
    primary key (class, seg, term)
) partition by list (class);
create table gone (
    class text not null,
    build int not null,
    no int not null,
    since int not null,
    primary key (class, build, no)
) partition by list (class);

-- One file of the corpus with its passages; opening is what a front page says of the corpus, path and entry are JSON, key is a digest of the path, which may be longer than an index takes.
create table file (
    class text not null,
    key text collate "C" not null,
    build int not null,
    added int not null,
    removed int,
    path text not null,
    opening text not null,
    entry text not null,
    primary key (class, key, build, added)
) partition by list (class);

-- When the last run looked at the corpus.
create table last_run (
    only_row boolean primary key default true check (only_row),
    finished_at text not null
);

-- For the writer alone: files left out for their content, by generation, and what it notes of the store, as JSON.
create table note (name text primary key, value text not null);
create table rejected (generation int primary key references generation (number) on delete cascade, files text not null);

do $$
declare c text; t text;
begin
    foreach c in array array['code', 'docs', 'decisions', 'config', 'memory'] loop
        foreach t in array array['plane', 'chunk', 'embedding', 'segment', 'post', 'gone', 'file'] loop
            execute format('create table %1$s_%2$s partition of %1$s for values in (%2$L)', t, c);
        end loop;
        execute format('alter table chunk_%1$s alter column words set storage external', c);
        execute format('alter table post_%1$s alter column data set storage external', c);
    end loop;
    foreach t in array array['plane', 'chunk', 'embedding', 'segment', 'post', 'gone', 'file'] loop
        execute format('alter table %s enable row level security', t);
    end loop;
end $$;
