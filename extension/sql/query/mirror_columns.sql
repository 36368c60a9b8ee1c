SELECT coldfront._mirror_columns($1, $2)
