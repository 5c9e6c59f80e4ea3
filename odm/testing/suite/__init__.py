"""All tests and fixtures of the suite: the test module of a backend imports everything from here, see `odm.testing`."""

from pkgutil import iter_modules

import pytest

# pytest must rewrite the asserts of the suite before the modules are imported.
pytest.register_assert_rewrite(*(module.name for module in iter_modules(__path__, f"{__name__}.")))

from odm.testing.fixtures import db, indexed, known_faults, lean, local, mode, offline, sharded, stores
from odm.testing.suite.actions import (
    TestIncrement,
    TestLists,
    TestRefusedActions,
    TestRemove,
    TestSet,
    TestSets,
    TestTogether,
)
from odm.testing.suite.adjacency import TestAdjacencyCosts, TestAdjacencyList, TestRemoveNode, TestWalk
from odm.testing.suite.aggregates import (
    TestExtremes,
    TestMergedExtremes,
    TestMergedSums,
    TestSums,
    campaigns,
)
from odm.testing.suite.automatic import TestAutomaticFields, TestMergedTimes, tickets, ticks
from odm.testing.suite.backfills import TestBackfill, TestBackfillCompanions
from odm.testing.suite.batches import TestBatch
from odm.testing.suite.blobs import TestBlobs, TestBlobUpdates, TestLostBlobs, blobs, library
from odm.testing.suite.cell_versions import TestCellVersions, exchange_clock, exchanged
from odm.testing.suite.collections import TestBoundedCollection, TestCollection
from odm.testing.suite.companions import TestCompanions, TestCompanionsTransactions, TestRefusedCompanions, table
from odm.testing.suite.compressing import TestCompressed, written
from odm.testing.suite.computed_keys import (
    TestComputedKeys,
    TestComputedKeysTransactions,
    TestComputedKeysUpdates,
    directory,
)
from odm.testing.suite.conditions import TestFilters, TestRefused, TestWhen
from odm.testing.suite.contention import TestContention
from odm.testing.suite.copying import TestBatchInProcedures, TestPutRaw, TestScanPages
from odm.testing.suite.counters import TestCounter, TestCounterPut
from odm.testing.suite.currents import TestCurrent, measured
from odm.testing.suite.decimals import TestDecimals, billing
from odm.testing.suite.deletes import TestConditionalDelete, TestDelete, TestDeleteAll
from odm.testing.suite.deriving import (
    TestDerive,
    TestDeriveCosts,
    TestDeriveRefuses,
    TestDeriveVerified,
    TestRawItem,
    orders,
    target,
)
from odm.testing.suite.described import TestDescribed
from odm.testing.suite.errors import TestErrors, TestStores, TestTables
from odm.testing.suite.expression_limits import TestExpressionLimits
from odm.testing.suite.families import TestFamilies, posts
from odm.testing.suite.gets import TestGet, TestGetMany
from odm.testing.suite.growing_shards import TestGrowingShards
from odm.testing.suite.indexes import TestIndexedTable, TestIndexPuts, TestIndexReads, TestIndexUpdates
from odm.testing.suite.invalid import TestInvalidItems, TestOnInvalid, TestOnInvalidIndexes
from odm.testing.suite.keep import TestKeep
from odm.testing.suite.lean_indexes import TestLeanIndexes
from odm.testing.suite.loads import TestBulkLoad, TestBulkLoadOfOwnCompanions
from odm.testing.suite.local_indexes import TestLocalIndexes, TestLocalIndexWrites
from odm.testing.suite.merges import TestMerge, TestMergeBatches, TestMergedOnce, TestRefusedMerges, metered
from odm.testing.suite.meters import TestMeter, TestMeterIndexes, TestMeterTransactions, TestMeterUpdates
from odm.testing.suite.only import TestOnly, TestRefusedOnly, meters
from odm.testing.suite.options import TestClock, TestLimits, TestOnRequest, TestPrefix, TestUnknown
from odm.testing.suite.other_keys import TestOtherKeys
from odm.testing.suite.pages import TestCursors, TestPages, TestPagesOfFewRequests
from odm.testing.suite.pointers import TestPointer, TestPointerAtChangingFields, TestPointerTogether, pointed, visited
from odm.testing.suite.procedures import TestProcedures, TestTogetherInProcedures
from odm.testing.suite.puts import TestConditionalPut, TestInsert, TestPut
from odm.testing.suite.queries import TestDescending, TestLimit, TestLossy, TestPlanning, TestRanges
from odm.testing.suite.ranges import TestRefusedRanges, TestSamples, TestScanRanges, ranged
from odm.testing.suite.rekeys import TestRekey, TestRekeyFields, TestRekeyWithoutTransactions
from odm.testing.suite.revision import TestNewRevision, TestRevision, TestRevisionRefused, TestRevisionUpdates
from odm.testing.suite.saves import TestSave, TestSaveRetrySafe, TestSaveWithCompanions, shelved
from odm.testing.suite.scans import TestRefusedSegments, TestScan, TestSegments
from odm.testing.suite.sharded_counters import TestShardedCounter, TestShardedCounterTransactions
from odm.testing.suite.sharded_keys import TestShardedKeys
from odm.testing.suite.shards import TestShardedPages, TestShardedReads, TestShardedWrites
from odm.testing.suite.shown_fields import TestAbsentFields, TestConditionsOnOlderItems, grown
from odm.testing.suite.sparse_indexes import TestSparseIndexes, TestSparseIndexTransactions, TestSparseIndexUpdates
from odm.testing.suite.stale_entries import TestStaleEntries
from odm.testing.suite.strangers import TestStrangers
from odm.testing.suite.time_series import (
    TestRotation,
    TestSeriesPatterns,
    TestSeriesReads,
    TestSeriesWrites,
    meter_series,
)
from odm.testing.suite.transaction_indexes import TestTransactionIndexes
from odm.testing.suite.transactions import (
    TestTransaction,
    TestTransactionCalls,
    TestTransactionReasons,
    TestTransactionRevision,
)
from odm.testing.suite.transactions_of_one import (
    TestTransactionOfOne,
    TestTransactionOfOneIndexes,
    TestTransactionOfSeveral,
)
from odm.testing.suite.ttl import TestExpiredReads, TestExpiredWrites, TestTTLUpdates
from odm.testing.suite.types import TestAttributes, TestKeys
from odm.testing.suite.unique import TestUnique, TestUniqueTransactions, clock, joined
from odm.testing.suite.updates import (
    TestBounds,
    TestRetrySafe,
    TestUpdate,
    TestUpdateCalls,
    TestUpsert,
    TestUpsertOfDefaults,
)
from odm.testing.suite.upgrades import (
    TestUpgradedIndexes,
    TestUpgradedReads,
    TestUpgradedRevisions,
    TestUpgradedTransactions,
    TestUpgradedUpdates,
    TestUpgradedWrites,
)
from odm.testing.suite.validated_updates import (
    TestAssignedValues,
    TestComparedValues,
    TestValidatedUpdates,
    thing_store,
)
from odm.testing.suite.verbatim_rows import TestCells, TestEntriesAsCells, TestVerbatimRows
from odm.testing.suite.versioned import TestVersioned, TestVersionedCosts, TestVersionedStopped, archive

__all__ = [
    "TestAbsentFields",
    "TestAdjacencyCosts",
    "TestAdjacencyList",
    "TestAssignedValues",
    "TestAttributes",
    "TestAutomaticFields",
    "TestBackfill",
    "TestBackfillCompanions",
    "TestBatch",
    "TestBatchInProcedures",
    "TestBlobUpdates",
    "TestBlobs",
    "TestBoundedCollection",
    "TestBounds",
    "TestBulkLoad",
    "TestBulkLoadOfOwnCompanions",
    "TestCellVersions",
    "TestCells",
    "TestClock",
    "TestCollection",
    "TestCompanions",
    "TestCompanionsTransactions",
    "TestComparedValues",
    "TestCompressed",
    "TestComputedKeys",
    "TestComputedKeysTransactions",
    "TestComputedKeysUpdates",
    "TestConditionalDelete",
    "TestConditionalPut",
    "TestConditionsOnOlderItems",
    "TestContention",
    "TestCounter",
    "TestCounterPut",
    "TestCurrent",
    "TestCursors",
    "TestDecimals",
    "TestDelete",
    "TestDeleteAll",
    "TestDerive",
    "TestDeriveCosts",
    "TestDeriveRefuses",
    "TestDeriveVerified",
    "TestDescending",
    "TestDescribed",
    "TestEntriesAsCells",
    "TestErrors",
    "TestExpiredReads",
    "TestExpiredWrites",
    "TestExpressionLimits",
    "TestExtremes",
    "TestFamilies",
    "TestFilters",
    "TestGet",
    "TestGetMany",
    "TestGrowingShards",
    "TestIncrement",
    "TestIndexPuts",
    "TestIndexReads",
    "TestIndexUpdates",
    "TestIndexedTable",
    "TestInsert",
    "TestInvalidItems",
    "TestKeep",
    "TestKeys",
    "TestLeanIndexes",
    "TestLimit",
    "TestLimits",
    "TestLists",
    "TestLocalIndexWrites",
    "TestLocalIndexes",
    "TestLossy",
    "TestLostBlobs",
    "TestMerge",
    "TestMergeBatches",
    "TestMergedExtremes",
    "TestMergedOnce",
    "TestMergedSums",
    "TestMergedTimes",
    "TestMeter",
    "TestMeterIndexes",
    "TestMeterTransactions",
    "TestMeterUpdates",
    "TestNewRevision",
    "TestOnInvalid",
    "TestOnInvalidIndexes",
    "TestOnRequest",
    "TestOnly",
    "TestOtherKeys",
    "TestPages",
    "TestPagesOfFewRequests",
    "TestPlanning",
    "TestPointer",
    "TestPointerAtChangingFields",
    "TestPointerTogether",
    "TestPrefix",
    "TestProcedures",
    "TestPut",
    "TestPutRaw",
    "TestRanges",
    "TestRawItem",
    "TestRefused",
    "TestRefusedActions",
    "TestRefusedCompanions",
    "TestRefusedMerges",
    "TestRefusedOnly",
    "TestRefusedRanges",
    "TestRefusedSegments",
    "TestRekey",
    "TestRekeyFields",
    "TestRekeyWithoutTransactions",
    "TestRemove",
    "TestRemoveNode",
    "TestRetrySafe",
    "TestRevision",
    "TestRevisionRefused",
    "TestRevisionUpdates",
    "TestRotation",
    "TestSamples",
    "TestSave",
    "TestSaveRetrySafe",
    "TestSaveWithCompanions",
    "TestScan",
    "TestScanPages",
    "TestScanRanges",
    "TestSegments",
    "TestSeriesPatterns",
    "TestSeriesReads",
    "TestSeriesWrites",
    "TestSet",
    "TestSets",
    "TestShardedCounter",
    "TestShardedCounterTransactions",
    "TestShardedKeys",
    "TestShardedPages",
    "TestShardedReads",
    "TestShardedWrites",
    "TestSparseIndexTransactions",
    "TestSparseIndexUpdates",
    "TestSparseIndexes",
    "TestStaleEntries",
    "TestStores",
    "TestStrangers",
    "TestSums",
    "TestTTLUpdates",
    "TestTables",
    "TestTogether",
    "TestTogetherInProcedures",
    "TestTransaction",
    "TestTransactionCalls",
    "TestTransactionIndexes",
    "TestTransactionOfOne",
    "TestTransactionOfOneIndexes",
    "TestTransactionOfSeveral",
    "TestTransactionReasons",
    "TestTransactionRevision",
    "TestUnique",
    "TestUniqueTransactions",
    "TestUnknown",
    "TestUpdate",
    "TestUpdateCalls",
    "TestUpgradedIndexes",
    "TestUpgradedReads",
    "TestUpgradedRevisions",
    "TestUpgradedTransactions",
    "TestUpgradedUpdates",
    "TestUpgradedWrites",
    "TestUpsert",
    "TestUpsertOfDefaults",
    "TestValidatedUpdates",
    "TestVerbatimRows",
    "TestVersioned",
    "TestVersionedCosts",
    "TestVersionedStopped",
    "TestWalk",
    "TestWhen",
    "archive",
    "billing",
    "blobs",
    "campaigns",
    "clock",
    "db",
    "directory",
    "exchange_clock",
    "exchanged",
    "grown",
    "indexed",
    "joined",
    "known_faults",
    "lean",
    "library",
    "local",
    "measured",
    "meter_series",
    "metered",
    "meters",
    "mode",
    "offline",
    "orders",
    "pointed",
    "posts",
    "ranged",
    "sharded",
    "shelved",
    "stores",
    "table",
    "target",
    "thing_store",
    "tickets",
    "ticks",
    "visited",
    "written",
]
