"""What is found in files of each language: one small file each, compared as a whole."""

from textwrap import dedent

import pytest

from headgate.outlines import LANGUAGES, Outline, language_of, outline_file

PYTHON = '''
"""Prices. And more about them."""
import os, sys as system
from .tables import (rate,
                     Rounding as R)

LIMIT = "secret-value"


class Price(Base):
    """One price."""

    @property
    def net(
        self, *, rounded: bool = False,
    ) -> int:
        return rate(self.gross)


async def load(path: str) -> Price:  # a comment
    def inner(): ...
    return Price()
'''
JAVASCRIPT = """
'use strict'
// Sends what was asked for.
const http = require('node:http')
import { a } from './a.js'
export class Sender extends Base {
  send (body, options) { return http.request(body) }
}
function* walk (tree) { yield tree }
const twice = (x) => { return x * 2 }
exports.end = function end (code) {}
"""
TYPESCRIPT = """
import { Store } from '../store'
export interface Row { id: number }
export type Rows = Row[]
export enum Kind { A, B }
export abstract class Table<T> implements Store {
  constructor(private rows: T[]) { super() }
  abstract get(id: number): T
  async find(id: number): Promise<T | undefined> { return this.rows[id] }
}
export const size = (table: Table<Row>): number => table.length
"""
GO = """
// Package tree walks trees.
package tree

import (
\t"fmt"
\tlog "example.com/x/log"
)

const Limit = 3

type Node struct {
\tName string
}

func (n *Node) Walk(visit func(*Node) error) error {
\treturn visit(n)
}

func New(name string) *Node { fmt.Println(name); return nil }
"""
RUST = """
//! Counts words.
use std::collections::HashMap;

pub const MOST: usize = 5;
pub struct Counter { words: HashMap<String, usize> }
pub trait Count { fn total(&self) -> usize; }
impl Count for Counter {
    fn total(&self) -> usize { self.words.len() }
}
pub fn count(text: &str) -> Counter { todo!() }
mod inner { pub fn f() {} }
"""
JAVA = """
/** Orders of customers. */
package shop;
import java.util.List;
public class Order {
    public Order(List<Item> items) { }
    int total(boolean net) { return 1; }
    interface Visitor { void visit(Order order); }
    enum State { NEW, DONE }
}
"""
C = """
/* Lists of numbers. */
#include <stdio.h>
#include "list.h"
#define LIMIT 10
struct list { int size; };
typedef struct list list_t;
int list_sum(const list_t *list);
static int *first(list_t *list) {
    return 0;
}
int list_sum(const list_t *list)
{
    return list->size;
}
"""
CPP = """
// Shapes in a plane.
#include <vector>
namespace geo {
class Shape {
public:
    virtual double area() const;
    double twice() { return 2 * area(); }
};
double Shape::area() const { return 0; }
template <typename T> T largest(const std::vector<T>& all) { return all[0]; }
}
"""
RUBY = """
# Carts and what is in them.
require 'json'
module Shop
  class Cart
    def total(net: false)
      1
    end
    def self.empty = new
  end
end
"""
PHP = """<?php
// Sends mails.
namespace App;
use App\\Util\\Text;
interface Mailer { public function send(string $to): bool; }
class Smtp implements Mailer {
    public function send(string $to): bool { return true; }
}
function quote(string $text) { return $text; }
"""
C_SHARP = """
// Clocks and hours.
using System.Text;
namespace Shop {
    public class Clock : IClock {
        public int Hour { get; set; }
        public Clock(int hour) { Hour = hour; }
        public string Show(bool full) { return ""; }
    }
}
"""
BASH = """#!/bin/bash
# Deploys the site.
source ./common.sh
deploy() {
    echo "$1"
}
"""
FOUND = [
    (
        "price.py", PYTHON, "Prices. And more about them.",
        ("os", "sys", ".tables", ".tables.rate", ".tables.Rounding"),
        """
        constant LIMIT 7-7: LIMIT
        class Price 10-17: class Price(Base)
        function Price.net 14-17: def net(self, *, rounded: bool = False) -> int
        function load 20-22: async def load(path: str) -> Price
        function load.inner 21-21: def inner()
        """,
    ),
    (
        "sender.js", JAVASCRIPT, "Sends what was asked for.", ("node:http", "./a.js"),
        """
        constant http 4-4: http
        class Sender 6-8: class Sender extends Base
        method Sender.send 7-7: send (body, options)
        function walk 9-9: function* walk (tree)
        function twice 10-10: const twice = (x)
        function end 11-11: exports.end = function end (code)
        """,
    ),
    (
        "table.ts", TYPESCRIPT, "", ("../store",),
        """
        interface Row 3-3: interface Row
        type Rows 4-4: type Rows = Row[]
        enum Kind 5-5: enum Kind
        class Table 6-10: abstract class Table<T> implements Store
        method Table.constructor 7-7: constructor(private rows: T[])
        method Table.get 8-8: abstract get(id: number): T
        method Table.find 9-9: async find(id: number): Promise<T | undefined>
        function size 11-11: const size = (table: Table<Row>): number
        """,
    ),
    (
        "tree.go", GO, "Package tree walks trees.", ("fmt", "example.com/x/log"),
        """
        constant Limit 10-10: Limit
        type Node 12-14: type Node struct
        method Walk 16-18: func (n *Node) Walk(visit func(*Node) error) error
        function New 20-20: func New(name string) *Node
        """,
    ),
    (
        "count.rs", RUST, "Counts words.", ("std::collections::HashMap",),
        """
        constant MOST 5-5: MOST
        struct Counter 6-6: pub struct Counter
        trait Count 7-7: pub trait Count
        function Count.total 7-7: fn total(&self) -> usize;
        impl Counter 8-10: impl Count for Counter
        function Counter.total 9-9: fn total(&self) -> usize
        function count 11-11: pub fn count(text: &str) -> Counter
        module inner 12-12: mod inner
        function inner.f 12-12: pub fn f()
        """,
    ),
    (
        "Order.java", JAVA, "Orders of customers.", ("java.util.List",),
        """
        class Order 5-10: public class Order
        method Order.Order 6-6: public Order(List<Item> items)
        method Order.total 7-7: int total(boolean net)
        interface Order.Visitor 8-8: interface Visitor
        method Order.Visitor.visit 8-8: void visit(Order order);
        enum Order.State 9-9: enum State
        """,
    ),
    (
        "list.c", C, "Lists of numbers.", ("stdio.h", "list.h"),
        """
        constant LIMIT 5-5: LIMIT
        struct list 6-6: struct list
        type list_t 7-7: typedef struct list list_t;
        prototype list_sum 8-8: int list_sum(const list_t *list);
        function first 9-11: static int *first(list_t *list)
        function list_sum 12-15: int list_sum(const list_t *list)
        """,
    ),
    (
        "shape.cpp", CPP, "Shapes in a plane.", ("vector",),
        """
        namespace geo 4-12: namespace geo
        class geo.Shape 5-9: class Shape
        prototype geo.Shape.area 7-7: virtual double area() const;
        method geo.Shape.twice 8-8: double twice()
        method geo.Shape::area 10-10: double Shape::area() const
        function geo.largest 11-11: T largest(const std::vector<T>& all)
        """,
    ),
    (
        "cart.rb", RUBY, "Carts and what is in them.", ("json",),
        """
        module Shop 4-11: module Shop
        class Shop.Cart 5-10: class Cart
        function Shop.Cart.total 6-8: def total(net: false)
        function Shop.Cart.empty 9-9: def self.empty =
        """,
    ),
    (
        "mail.php", PHP, "Sends mails.", ("App\\Util\\Text",),
        """
        interface Mailer 5-5: interface Mailer
        method Mailer.send 5-5: public function send(string $to): bool;
        class Smtp 6-8: class Smtp implements Mailer
        method Smtp.send 7-7: public function send(string $to): bool
        function quote 9-9: function quote(string $text)
        """,
    ),
    (
        "Clock.cs", C_SHARP, "Clocks and hours.", ("System.Text",),
        """
        class Clock 5-9: public class Clock : IClock
        property Clock.Hour 6-6: public int Hour { get; set; }
        method Clock.Clock 7-7: public Clock(int hour)
        method Clock.Show 8-8: public string Show(bool full)
        """,
    ),
    (
        "deploy.sh", BASH, "Deploys the site.", ("./common.sh",),
        """
        function deploy 4-6: deploy()
        """,
    ),
]  # fmt: skip


def show(outline: Outline) -> str:
    return "\n".join(
        f"{one.kind} {one.full_name} {one.first}-{one.last}: {one.signature}" for one in outline.definitions
    )


@pytest.mark.parametrize(
    ("path", "source", "purpose", "imports", "expected"), FOUND, ids=[row[0] for row in FOUND]
)
def test_definitions_imports_and_purpose(
    path: str, source: str, purpose: str, imports: tuple[str, ...], expected: str
) -> None:
    outline = outline_file(path, source.encode())
    assert show(outline) == dedent(expected).strip()
    assert (outline.purpose, outline.imports) == (purpose, imports)


def test_every_language_has_a_grammar_that_is_installed_and_a_query_that_fits_it() -> None:
    found = {language_of(path) for path, *_ in FOUND}
    assert {language.name for language in found if language} == LANGUAGES.keys() - {"tsx"}
    assert show(outline_file("page.tsx", b"export const Page = () => <p>text</p>\n")) == (
        "function Page 1-1: const Page = ()"
    )


def test_values_of_constants_and_words_in_strings_and_comments_are_not_taken_for_names() -> None:
    outline = outline_file("price.py", PYTHON.encode())
    assert "secret-value" not in repr(outline.definitions)
    assert "comment" not in outline.references
    assert outline.references["rate"] == 2
    assert outline.words["comment"] == 1


@pytest.mark.parametrize(
    ("path", "text", "signature"),
    [
        (
            "a.py",
            "def f(key='sk-abcdefghijklmnopqrstuvwxyz', mode=\"fast\"):\n    pass\n",
            "def f(key='...', mode=\"fast\")",
        ),
        (
            "a.ts",
            'function f(key: string = "sk-abcdefghijklmnopqrstuvwxyz", m: "a" = "a") {}\n',
            'function f(key: string = "...", m: "a" = "a")',
        ),
        ("a.rb", 'def f(key = "sk-abcdefghijklmnopqrstuvwxyz")\nend\n', 'def f(key = "...")'),
    ],
)
def test_long_defaults_are_not_in_signatures(path: str, text: str, signature: str) -> None:
    assert [one.signature for one in outline_file(path, text.encode()).definitions] == [signature]


@pytest.mark.parametrize(
    ("path", "data", "name"),
    [
        ("a.PY", b"", "python"),
        ("tool", b"#!/usr/bin/env python3\n", "python"),
        ("tool", b"#!/bin/sh\n", "bash"),
        ("tool", b"text", None),
        (".py", b"", None),
        ("a.txt", b"#!/bin/sh\n", None),
    ],
)
def test_the_language_is_told_by_the_suffix_or_by_the_first_line(
    path: str, data: bytes, name: str | None
) -> None:
    language = language_of(path, data)
    assert (language.name if language else None) == name
