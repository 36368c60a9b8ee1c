SELECT coldfront._tier_view_aside($1, $2)
