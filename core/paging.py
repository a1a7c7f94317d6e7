"""Cursor pagination of the API: stable while rows come and go."""

from rest_framework.pagination import CursorPagination


class Cursor(CursorPagination):
    page_size = 50
    max_page_size = 500
    page_size_query_param = "limit"
    ordering = "-id"
